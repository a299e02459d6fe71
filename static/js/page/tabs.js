// @ts-check
// <tab-set>: sections of a page as tabs, the chosen one in the address. Without this script they stand
// below each other, each under its heading.

import { all } from "./parts.js";

class TabSet extends HTMLElement {
  connectedCallback() {
    this.panels = all(this, ":scope > section[id][data-tab]", HTMLElement);
    const list = document.createElement("div");
    list.role = "tablist";
    list.ariaLabel = this.ariaLabel;
    this.tabs = this.panels.map((panel) => {
      const tab = document.createElement("button");
      tab.type = "button";
      tab.role = "tab";
      tab.id = `tab-${panel.id}`;
      tab.textContent = panel.dataset.tab ?? "";
      tab.setAttribute("aria-controls", panel.id);
      tab.addEventListener("click", () => this.choose(panel, true));
      panel.role = "tabpanel";
      panel.setAttribute("aria-labelledby", tab.id);
      return tab;
    });
    list.append(...this.tabs);
    list.addEventListener("keydown", (event) => this.key(event));
    this.prepend(list);
    addEventListener("hashchange", () => this.follow());
    this.follow();
  }

  /** The panel that the address means, or something in it; else the first. */
  follow() {
    const meant = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    const panel = this.panels?.find((each) => each.contains(meant)) ?? this.panels?.find((each) => !each.hidden);
    if (panel) this.choose(panel);
  }

  /** @param {HTMLElement} panel @param {boolean} [isAsked] by a person: the address says so then */
  choose(panel, isAsked = false) {
    for (const [at, each] of (this.panels ?? []).entries()) {
      each.hidden = each !== panel;
      const tab = this.tabs?.[at];
      if (!tab) continue;
      tab.ariaSelected = String(each === panel);
      tab.tabIndex = each === panel ? 0 : -1;
    }
    if (isAsked) history.replaceState(history.state, "", `#${panel.id}`);
    // What draws by its size was drawn at none.
    dispatchEvent(new Event("resize"));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const tabs = this.tabs ?? [];
    const last = tabs.length - 1;
    const at = tabs.findIndex((each) => each === document.activeElement);
    /** @type {Record<string, number>} */
    const ways = { ArrowRight: at < last ? at + 1 : 0, ArrowLeft: at > 0 ? at - 1 : last, Home: 0, End: last };
    const tab = tabs[ways[event.key] ?? -1];
    if (!tab) return;
    event.preventDefault();
    tab.focus();
    tab.click();
  }
}

customElements.define("tab-set", TabSet);

// @ts-check
// <search-everywhere>: what the field at the top finds, listed while one types. The field keeps the
// focus; aria-activedescendant tells which hit is meant. Without this script it searches profiles.

import { all, around, find } from "./parts.js";

const PAUSE = 120; // ms after the last key

/** @typedef {{title: string, about: string, url: string}} Hit */
/** @typedef {{title: string, hits: Hit[]}} Group */

class SearchEverywhere extends HTMLElement {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;
  /** @type {AbortController | null} */
  asking = null;
  active = -1;

  connectedCallback() {
    this.field = find(this, "input", HTMLInputElement);
    this.panel = find(this, ".search-panel", HTMLElement);
    this.list = find(this, "[role=listbox]", HTMLElement);
    this.said = find(this, "[role=status]", HTMLElement);
    this.field.role = "combobox";
    this.field.ariaExpanded = "false";
    this.field.ariaAutoComplete = "list";
    this.field.setAttribute("aria-controls", this.list.id);
    this.field.addEventListener("input", () => this.later());
    this.field.addEventListener("keydown", (event) => this.key(event));
    // Pressing must not take the focus from the field; the click is the link's own.
    this.panel.addEventListener("pointerdown", (event) => event.preventDefault());
    this.panel.addEventListener("mousedown", (event) => event.preventDefault());
    this.addEventListener("focusin", () => this.field?.value.trim() && this.later());
    this.addEventListener("focusout", (event) => {
      if (!(event.relatedTarget instanceof Node && this.contains(event.relatedTarget))) this.hide();
    });
    this.panel.addEventListener("pointermove", (event) => {
      const option = around(event, "[role=option]", HTMLAnchorElement);
      if (option) this.mark(this.options().indexOf(option));
    });
  }

  disconnectedCallback() {
    this.stop();
  }

  stop() {
    clearTimeout(this.timer);
    this.asking?.abort();
  }

  later() {
    this.stop();
    if (!this.field?.value.trim()) return this.hide();
    this.timer = setTimeout(() => this.ask(), PAUSE);
  }

  async ask() {
    const asking = (this.asking = new AbortController());
    const asked = new URLSearchParams({ q: this.field?.value ?? "" });
    try {
      const response = await fetch(`${this.dataset.url}?${asked}`, { signal: asking.signal });
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      this.show((await response.json()).groups);
    } catch {
      // Enter still leads to the list of profiles.
      if (!asking.signal.aborted) this.hide();
    }
  }

  /** @param {Group[]} groups */
  show(groups) {
    if (document.activeElement !== this.field) return;
    this.list?.replaceChildren(...groups.map((group) => this.group(group)));
    const options = this.options();
    for (const [at, option] of options.entries()) option.id = `search-hit-${at}`;
    this.open(true);
    this.mark(-1);
    const count = options.length;
    if (!this.said) return;
    this.said.textContent = count ? `${count} ${count === 1 ? "result" : "results"}` : "Nothing found";
    this.said.classList.toggle("visually-hidden", count > 0);
  }

  /** @param {Group} group */
  group({ title, hits }) {
    const made = document.createElement("div");
    made.role = "group";
    made.ariaLabel = title;
    made.append(
      ...hits.map(({ title: name, about, url }) => {
        const option = Object.assign(document.createElement("a"), { href: url, tabIndex: -1 });
        option.role = "option";
        option.append(Object.assign(document.createElement("strong"), { textContent: name }));
        if (about) option.append(" ", Object.assign(document.createElement("span"), { textContent: about, className: "quiet" }));
        return option;
      }),
    );
    return made;
  }

  options() {
    return all(this, "[role=option]", HTMLAnchorElement);
  }

  /** @param {boolean} isOpen */
  open(isOpen) {
    if (!this.panel || !this.field) return;
    this.panel.hidden = !isOpen;
    this.field.ariaExpanded = String(isOpen);
  }

  hide() {
    this.stop();
    this.open(false);
    this.list?.replaceChildren();
    this.mark(-1);
    if (this.said) this.said.textContent = "";
  }

  /** @param {number} at */
  mark(at) {
    this.active = at;
    const options = this.options();
    for (const [place, option] of options.entries()) option.ariaSelected = String(place === at);
    const option = options[at];
    if (option) this.field?.setAttribute("aria-activedescendant", option.id);
    else this.field?.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({ block: "nearest" });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.altKey || event.metaKey || event.ctrlKey || event.isComposing) return;
    const options = this.options();
    const last = options.length - 1;
    if (event.key === "Escape" && this.panel && !this.panel.hidden) this.hide();
    else if (event.key === "Escape") return this.field?.blur();
    else if (last < 0) return;
    else if (event.key === "ArrowDown") this.mark(this.active < last ? this.active + 1 : 0);
    else if (event.key === "ArrowUp") this.mark(this.active > 0 ? this.active - 1 : last);
    else if (event.key === "Enter" && this.active >= 0) options[this.active]?.click();
    else return;
    event.preventDefault();
  }
}

customElements.define("search-everywhere", SearchEverywhere);

// @ts-check
// <command-palette>: pages, things and actions, listed while one types. The field keeps the focus;
// aria-activedescendant tells which hit is meant. palette-keys.js opens it.

import { all, around, byId, find } from "./parts.js";

const PAUSE = 120; // ms after the last key

/** @typedef {{title: string, about: string, url: string, post?: string, ask?: string}} Hit */
/** @typedef {{title: string, hits: Hit[]}} Group */

class CommandPalette extends HTMLElement {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;
  /** @type {AbortController | null} */
  asking = null;
  active = -1;
  // Whether the hits are those of other words; the keys that were pressed meanwhile.
  isBehind = false;
  /** @type {string[]} */
  held = [];

  connectedCallback() {
    this.dialog = byId("palette", HTMLDialogElement);
    this.form = find(this.dialog, "form", HTMLFormElement);
    this.field = find(this, "input", HTMLInputElement);
    this.list = find(this, "[role=listbox]", HTMLElement);
    this.said = find(this, "[role=status]", HTMLElement);
    this.field.role = "combobox";
    this.field.ariaAutoComplete = "list";
    this.field.ariaExpanded = "false";
    this.field.setAttribute("aria-controls", this.list.id);
    this.field.addEventListener("input", () => this.later());
    this.field.addEventListener("keydown", (event) => this.key(event));
    // The event may come after it was opened again: what is asked then is not to be stopped.
    this.dialog.addEventListener("toggle", () => this.dialog?.matches(":popover-open") || this.stop());
    this.dialog.addEventListener("click", (event) => {
      // It covers the page: beside the card one presses the dialog itself.
      if (event.target === this.dialog) this.dialog?.hidePopover();
    });
    // Pressing must not take the focus from the field; the click is the link's own.
    this.list.addEventListener("mousedown", (event) => event.preventDefault());
    this.list.addEventListener("pointermove", (event) => {
      const option = around(event, "[role=option]", HTMLAnchorElement);
      if (option) this.mark(this.options().indexOf(option));
    });
    this.list.addEventListener("click", (event) => {
      const option = around(event, "[role=option]", HTMLAnchorElement);
      if (!option || event.ctrlKey || event.metaKey || event.shiftKey) return;
      this.dialog?.hidePopover();
      if (option.dataset.post || option.dataset.ask) {
        event.preventDefault();
        this.act(option);
      }
    });
  }

  begin() {
    this.stop();
    this.isBehind = true;
    this.list?.replaceChildren();
    this.mark(-1);
    this.ask();
  }

  stop() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.held = [];
  }

  later() {
    this.stop();
    this.isBehind = true;
    this.timer = setTimeout(() => this.ask(), PAUSE);
  }

  async ask() {
    const text = this.field?.value.trim() ?? "";
    if (!text) return this.show([{ title: "Pages", hits: pages() }]);
    const asking = (this.asking = new AbortController());
    /** @type {Group[]} */
    let groups = [];
    try {
      const response = await fetch(`${this.dataset.url}?${new URLSearchParams({ q: text })}`, { signal: asking.signal });
      if (response.ok) groups = (await response.json()).groups;
    } catch {
      // The list of profiles may still be reached.
      if (asking.signal.aborted) return;
    }
    const list = `${this.form?.action}?${new URLSearchParams({ q: text })}`;
    this.show([...groups, { title: "Lists", hits: [{ title: `Profiles that match “${text}”`, about: "", url: list }] }]);
  }

  /** @param {Group[]} groups */
  show(groups) {
    this.list?.replaceChildren(...groups.filter(({ hits }) => hits.length).map((group) => this.group(group)));
    const options = this.options();
    for (const [at, option] of options.entries()) option.id = `search-hit-${at}`;
    if (this.field) this.field.ariaExpanded = String(options.length > 0);
    this.mark(options.length ? 0 : -1);
    if (this.said) this.said.textContent = `${options.length} ${options.length === 1 ? "result" : "results"}`;
    this.isBehind = false;
    for (const key of this.held.splice(0)) this.press(key, false);
  }

  /** @param {Group} group */
  group({ title, hits }) {
    const made = document.createElement("div");
    made.role = "group";
    made.ariaLabel = title;
    made.append(
      ...hits.map(({ title: name, about, url, post, ask }) => {
        const option = Object.assign(document.createElement("a"), { href: url, tabIndex: -1 });
        option.role = "option";
        if (post) option.dataset.post = post;
        if (ask) option.dataset.ask = ask;
        option.append(Object.assign(document.createElement("strong"), { textContent: name }));
        if (about) option.append(" ", Object.assign(document.createElement("span"), { textContent: about, className: "quiet" }));
        return option;
      }),
    );
    return made;
  }

  /**
   * What a button of a card would do: htmx asks, or does it and goes to the server's page.
   * @param {HTMLAnchorElement} option
   */
  act(option) {
    const button = document.createElement("button");
    button.type = "button";
    button.hidden = true;
    if (option.dataset.ask) {
      button.setAttribute("hx-get", option.dataset.ask);
      button.setAttribute("hx-target", "#dialog");
      button.setAttribute("hx-swap", "innerHTML");
    } else {
      button.setAttribute("hx-post", option.dataset.post ?? "");
      button.setAttribute("hx-swap", "none");
      button.dataset.then = option.href;
    }
    document.getElementById("palette-action")?.remove();
    button.id = "palette-action";
    document.body.append(button);
    htmx.process(button);
    button.click();
  }

  options() {
    return all(this, "[role=option]", HTMLAnchorElement);
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
    // There is nothing else to go to.
    if (event.key === "Tab") event.preventDefault();
    if (event.altKey || event.metaKey || event.ctrlKey || event.isComposing) return;
    if (!["ArrowDown", "ArrowUp", "Enter"].includes(event.key)) return;
    if (this.isBehind) this.held.push(event.key);
    else if (this.active < 0) return;
    else this.press(event.key, true);
    event.preventDefault();
  }

  /**
   * @param {string} key
   * @param {boolean} isSeen whether its presser saw these hits: none starts a server unseen
   */
  press(key, isSeen) {
    const options = this.options();
    const last = options.length - 1;
    if (key === "ArrowDown") this.mark(this.active < last ? this.active + 1 : 0);
    else if (key === "ArrowUp") this.mark(this.active > 0 ? this.active - 1 : last);
    else if (isSeen || !options[this.active]?.dataset.post) options[this.active]?.click();
  }
}

/** The sidebar's, before anything was typed. @returns {Hit[]} */
function pages() {
  return all(document, ".sidebar :is(.pages, .boxes) a", HTMLAnchorElement).map((link) => ({
    title: link.querySelector(".label, .box-name")?.textContent ?? "",
    about: link.closest(".boxes") ? "box" : "",
    url: link.href,
  }));
}

customElements.define("command-palette", CommandPalette);

// It has been opened.
export function begin() {
  find(document, "command-palette", CommandPalette).begin();
}

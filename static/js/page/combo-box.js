// @ts-check
// <combo-box>: a text field with a list of what a box has, which narrows while one types. Any other
// text may be written too. The field keeps the focus; aria-activedescendant tells which option is meant.
// The list is JSON of the address in data-source, for the box that the form's field data-with says.

import { around, find } from "./parts.js";
import { icon } from "./toast.js";

/** @typedef {{value: string, name: string, detail: string, sets?: Record<string, string>, adds?: Record<string, string>}} Choice */
/** @typedef {{options: Choice[], empty: string}} Choices */

const MOST = 50;

class ComboBox extends HTMLElement {
  /** @type {Map<string, Promise<Choices>>} */
  asked = new Map();
  /** @type {Choice[]} */
  shown = [];
  active = -1;

  connectedCallback() {
    if (this.list) return;
    this.box = find(this, "input", HTMLInputElement);
    this.list = document.createElement("ul");
    this.list.role = "listbox";
    this.list.id = `${this.box.id}_choices`;
    this.list.ariaLabel = `${this.dataset.about}: choices`;
    this.list.hidden = true;
    this.said = document.createElement("p");
    this.said.role = "status";
    this.said.className = "combo-said";
    this.arrow = document.createElement("button");
    this.arrow.type = "button";
    this.arrow.tabIndex = -1;
    this.arrow.className = "faint icon-button";
    this.arrow.ariaLabel = `${this.dataset.about}: show choices`;
    this.arrow.append(icon("chevron"));
    this.append(this.arrow, this.list, this.said);
    this.#tell(this.box, this.list, this.arrow);
  }

  /** @param {HTMLInputElement} box @param {HTMLElement} list @param {HTMLElement} arrow */
  #tell(box, list, arrow) {
    box.role = "combobox";
    box.autocomplete = "off";
    box.ariaAutoComplete = "list";
    box.ariaExpanded = "false";
    box.setAttribute("aria-controls", list.id);
    box.addEventListener("input", () => this.open());
    box.addEventListener("click", () => this.open(true));
    box.addEventListener("blur", () => this.close());
    box.addEventListener("keydown", (event) => {
      if (this.#key(event)) event.preventDefault();
    });
    // Pressing must not take the focus from the field.
    for (const part of [list, arrow]) part.addEventListener("mousedown", (event) => event.preventDefault());
    arrow.addEventListener("click", () => (list.hidden ? (box.focus(), this.open(true)) : this.close()));
    list.addEventListener("click", (event) => {
      const option = around(event, "[role=option]", HTMLElement);
      if (option) this.#choose([...list.children].indexOf(option));
    });
  }

  /** @param {boolean} [showsAll] whatever is written */
  async open(showsAll = false) {
    const { options, empty } = await this.#fetch();
    const { box, list, said } = this;
    if (!box || !list || !said || document.activeElement !== box) return;
    const words = showsAll ? [] : box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fitting = options.filter(({ value, name }) => words.every((word) => `${value} ${name}`.toLowerCase().includes(word)));
    this.shown = fitting.slice(0, MOST);
    const isChosen = this.shown.some(({ value }) => value === box.value);
    this.#mark(showsAll ? this.shown.findIndex(({ value }) => value === box.value) : -1);
    list.replaceChildren(...this.shown.map((each, at) => this.#option(each, at)));
    list.hidden = !this.shown.length || (isChosen && !showsAll && this.shown.length === 1);
    box.ariaExpanded = String(!list.hidden);
    said.textContent = !options.length || this.shown.length || !box.value ? "" : empty;
    this.#mark(this.active);
  }

  close() {
    if (this.list) this.list.hidden = true;
    if (this.box) this.box.ariaExpanded = "false";
    this.#mark(-1);
  }

  #fetch() {
    const form = this.closest("form");
    const field = form?.elements.namedItem(this.dataset.with ?? "");
    const box = field instanceof HTMLSelectElement ? field.value : (this.dataset.box ?? "");
    const address = `${this.dataset.source}?box=${encodeURIComponent(box)}`;
    const found = this.asked.get(address) ?? fetchChoices(address);
    this.asked.set(address, found);
    return found.catch(() => {
      this.asked.delete(address);
      return /** @type {Choices} */ ({ options: [], empty: "" });
    });
  }

  /** @param {Choice} choice @param {number} at */
  #option({ value, name, detail }, at) {
    const option = document.createElement("li");
    option.role = "option";
    option.id = `${this.list?.id}_${at}`;
    option.ariaSelected = "false";
    const title = Object.assign(document.createElement("span"), { className: "combo-name", textContent: name });
    const more = Object.assign(document.createElement("span"), { className: "combo-detail", textContent: detail });
    option.append(title, more);
    if (value !== name) option.title = value;
    return option;
  }

  /** @param {number} at */
  #mark(at) {
    this.active = at;
    for (const [place, option] of [...(this.list?.children ?? [])].entries()) option.ariaSelected = String(place === at);
    const option = this.list?.children[at];
    if (option) this.box?.setAttribute("aria-activedescendant", option.id);
    else this.box?.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({ block: "nearest" });
  }

  // Whether the key was meant for the list.
  /** @param {KeyboardEvent} event */
  #key(event) {
    const isOpen = this.list?.hidden === false;
    const last = this.shown.length - 1;
    if (event.isComposing || event.ctrlKey || event.metaKey) return false;
    if (event.key === "ArrowDown" && !isOpen) this.open(true);
    else if (event.key === "ArrowDown") this.#mark(this.active < last ? this.active + 1 : 0);
    else if (event.key === "ArrowUp" && isOpen) this.#mark(this.active > 0 ? this.active - 1 : last);
    else if (event.key === "Escape" && isOpen) this.close();
    else if (event.key === "Enter" && isOpen && this.active >= 0) this.#choose(this.active);
    else return false;
    event.stopPropagation();
    return true;
  }

  /** @param {number} at */
  #choose(at) {
    const choice = this.shown[at];
    const { box } = this;
    if (!choice || !box) return;
    box.value = choice.value;
    this.close();
    if (this.said) this.said.textContent = "";
    this.dispatchEvent(new CustomEvent("combo-choice", { bubbles: true, detail: choice }));
    box.dispatchEvent(new Event("change", { bubbles: true }));
  }
}

/** @param {string} address @returns {Promise<Choices>} */
async function fetchChoices(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

customElements.define("combo-box", ComboBox);

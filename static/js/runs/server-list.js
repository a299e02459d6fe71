// @ts-check
// <server-list>: the cards of servers: filtered by state, by box and by words, as cards or as a table that is sorted, and
// selected for one action on several. Live parts change the cards; what was chosen here holds for what comes.

import { compare } from "../page/list-order.js";
import { all, around, find } from "../page/parts.js";

const VIEW = "inferdash.servers";
const FEW = 8; // are found without a filter
// What is read in words goes up first, figures down. A third press brings the order of states back.
const WORDS = ["name", "state", "where"];

class ServerList extends HTMLElement {
  group = "";
  words = "";
  box = "";
  /** @type {{key: string, way: 1 | -1} | null} */
  sorted = null;
  observer = new MutationObserver(() => this.arrange());

  connectedCallback() {
    const cards = this.querySelector("#servers");
    if (!cards) return;
    this.addEventListener("click", (event) => this.press(event));
    this.addEventListener("input", (event) => this.type(event));
    this.addEventListener("change", (event) => this.pick(event));
    this.addEventListener("keydown", (event) => this.escape(event));
    this.addEventListener("htmx:after:request", (event) => this.settle(event));
    this.observer.observe(cards, {
      subtree: true,
      childList: true,
      attributeFilter: ["data-group", "data-words", "data-unmatched", "style", "aria-pressed"],
    });
    this.mark(document.documentElement.dataset.servers ?? (this.classList.contains("is-many") ? "table" : "cards"));
    this.arrange();
  }

  disconnectedCallback() {
    this.observer.disconnect();
  }

  get cards() {
    return all(this, ".card", HTMLElement);
  }

  get ticks() {
    return all(this, ".card-tick", HTMLInputElement);
  }

  /** @param {Event} event */
  press(event) {
    const button = around(event, "button", HTMLButtonElement);
    if (!button) return;
    const { show, view, sort } = button.dataset;
    if (sort) this.sort(sort);
    if (show !== undefined) this.group = show;
    if (view !== undefined) this.choose(view);
    if ("select" in button.dataset) this.select(!this.hasAttribute("data-selecting"));
    if ("clear" in button.dataset) this.select(false);
    if ("reset" in button.dataset) this.reset();
    if (show !== undefined || view !== undefined) this.arrange();
  }

  /** @param {string} key */
  sort(key) {
    const first = WORDS.includes(key) ? 1 : -1;
    if (this.sorted?.key !== key) this.sorted = { key, way: first };
    else this.sorted = this.sorted.way === first ? { key, way: first === 1 ? -1 : 1 } : null;
    this.arrange();
  }

  /** By CSS: a card that is moved in the document loses the focus in it. @param {HTMLElement[]} cards */
  order(cards) {
    const { sorted } = this;
    const values = new Map(sorted ? cards.map((card) => [card, valueOf(card, sorted.key)]) : []);
    const value = (/** @type {HTMLElement} */ card) => values.get(card) ?? "";
    const wanted = sorted ? cards.toSorted((one, other) => compare(value(one), value(other), sorted.way)) : cards;
    for (const [at, card] of wanted.entries()) {
      const order = sorted ? String(at + 1) : "";
      if (card.style.order !== order) card.style.order = order;
    }
    for (const head of all(this, ".cards-head .sort", HTMLElement)) {
      const way = head.dataset.sort === sorted?.key ? sorted?.way : null;
      set(head, "aria-pressed", String(Boolean(way)));
      set(head, "aria-label", `${head.textContent}${way ? (way > 0 ? ", ascending" : ", descending") : ""}`);
    }
  }

  reset() {
    this.group = this.words = this.box = "";
    const boxes = this.querySelector(".server-box");
    if (boxes instanceof HTMLSelectElement) boxes.value = "";
    find(this, ".server-filter", HTMLInputElement).value = "";
    this.arrange();
    find(this, ".chip[data-show='']", HTMLElement).focus();
  }

  /** @param {Event} event */
  type(event) {
    const field = around(event, ".server-filter", HTMLInputElement);
    if (!field) return;
    this.words = field.value;
    this.arrange();
  }

  /** @param {Event} event */
  pick(event) {
    const field = around(event, ".server-box", HTMLSelectElement);
    if (!field) return this.count();
    this.box = field.value;
    this.arrange();
  }

  /** @param {KeyboardEvent} event */
  escape(event) {
    if (event.key === "Escape" && this.hasAttribute("data-selecting")) this.select(false);
  }

  /** The view, for this browser. @param {string} view */
  choose(view) {
    this.sorted = null; // cards have no headers that tell of it
    document.documentElement.dataset.servers = view;
    this.mark(view);
    try {
      localStorage.setItem(VIEW, view);
    } catch {
      // Storage is switched off in this browser: the view then lasts for one page.
    }
  }

  /** @param {string} view */
  mark(view) {
    for (const button of all(this, "[data-view]", HTMLElement)) button.ariaPressed = String(button.dataset.view === view);
  }

  /** Marks the cards that do not match, and counts those of each group. */
  arrange() {
    const words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    const cards = this.cards.filter((card) => !card.hidden);
    let shown = 0;
    for (const card of cards) {
      const { group = "", box = "", words: text = "" } = card.dataset;
      const isThere = (!this.group || group === this.group) && (!this.box || box === this.box);
      const matches = isThere && words.every((word) => text.toLowerCase().includes(word));
      card.toggleAttribute("data-unmatched", !matches);
      shown += Number(matches);
    }
    for (const chip of all(this, ".chip[data-show]", HTMLElement)) {
      const { show = "" } = chip.dataset;
      const count = cards.filter((card) => !show || card.dataset.group === show).length;
      find(chip, "span", HTMLElement).textContent = String(count);
      chip.ariaPressed = String(show === this.group);
      chip.hidden = Boolean(show) && count === 0 && show !== this.group;
    }
    this.order(cards);
    for (const part of all(this, ".server-control", HTMLElement)) part.hidden = cards.length === 0;
    const filter = find(this, ".server-filter", HTMLInputElement);
    filter.hidden = cards.length <= FEW && !filter.value;
    find(this, ".no-match", HTMLElement).hidden = shown > 0 || cards.length === 0;
    this.count();
  }

  /** @param {boolean} on */
  select(on) {
    this.toggleAttribute("data-selecting", on);
    const button = find(this, "[data-select]", HTMLElement);
    button.ariaPressed = String(on);
    if (!on) {
      for (const tick of this.ticks) tick.checked = false;
      button.focus();
    }
    this.count();
  }

  /** The bar stands there as long as something is selected. */
  count() {
    const bar = this.querySelector("form.bulk");
    if (!(bar instanceof HTMLFormElement)) return;
    for (const tick of this.ticks) if (tick.closest("[data-unmatched]")) tick.checked = false;
    const selected = this.ticks.filter((tick) => tick.checked).length;
    find(bar, "[data-count]", HTMLElement).textContent = String(selected);
    bar.hidden = !this.hasAttribute("data-selecting");
    for (const button of all(bar, "[name=verb]", HTMLButtonElement)) button.disabled = selected === 0;
  }

  /** What was selected has been acted on. @param {Event} event */
  settle(event) {
    if (around(event, "form.bulk", HTMLFormElement)) this.select(false);
  }
}

/** @param {HTMLElement} card @param {string} key */
function valueOf(card, key) {
  if (key === "where") return card.querySelector(".card-where")?.textContent.trim() ?? "";
  if (WORDS.includes(key)) return card.dataset[key] ?? "";
  const figure = card.querySelector(`[data-figure="${key}"]`);
  return figure instanceof HTMLElement ? (figure.dataset.value ?? "") : "";
}

/** What is watched is written where it differs only. @param {HTMLElement} part @param {string} name @param {string} value */
function set(part, name, value) {
  if (part.getAttribute(name) !== value) part.setAttribute(name, value);
}

customElements.define("server-list", ServerList);

// @ts-check
// The list of conversations: the newest first, by day, searched on the server, more of it as one scrolls.

import { button, element, iconButton } from "../../page/dom.js";
import { icon } from "../../page/toast.js";
import { AwayError, titleOf } from "./store.js";

/** @import { Store } from "./store.js" */

const TYPING = 250; // ms of silence before a search is asked

export class List {
  /** @type {Chat.Row[]} */
  rows = [];
  before = "";
  found = ""; // what is said where there are no rows
  isLoading = false;
  /** The open conversation. @type {Chat.Conversation | null} */
  current = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  typing;
  /** While somebody writes a name in a row, none moves. */
  isEdited = false;
  /** What is shown, by what it says. @type {Map<string, HTMLElement>} */
  items = new Map();

  /**
   * Comparisons have pages below `compared`.
   * @param {{
   *   store: Store,
   *   list: HTMLElement,
   *   search: HTMLInputElement,
   *   more: HTMLElement,
   *   compared: string | undefined,
   *   open: (id: string) => void,
   *   remove: (id: string, title: string) => void,
   *   rename: (id: string, name: string) => void,
   * }} parts
   */
  constructor({ store, list, search, more, compared, open, remove, rename }) {
    this.store = store;
    this.list = list;
    this.search = search;
    this.more = more;
    this.compared = compared;
    this.open = open;
    this.remove = remove;
    this.rename = rename;
    search.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.load(), TYPING);
    });
    more.addEventListener("click", () => this.load({ further: true }));
    new IntersectionObserver(([entry]) => {
      if (entry?.isIntersecting && this.before && !this.isLoading) this.load({ further: true });
    }).observe(more);
  }

  // What the server has; what is shown stays where it does not answer.
  /** @param {{further?: boolean}} [how] */
  async load({ further = false } = {}) {
    const query = this.search.value.trim();
    this.isLoading = true;
    try {
      const found = await this.store.list({ query, before: further ? this.before : "" });
      if (query !== this.search.value.trim()) return;
      this.rows = further ? [...this.rows, ...found.conversations] : found.conversations;
      this.before = found.before;
      this.found = query ? "Nothing that matches." : "";
    } catch (error) {
      if (!(error instanceof AwayError)) throw error;
      this.found = error.message;
    } finally {
      this.isLoading = false;
    }
    this.draw();
  }

  // The conversation that is open, or one that has just been kept.
  /** @param {Chat.Conversation} conversation @param {boolean} [isCurrent] */
  put(conversation, isCurrent = false) {
    if (isCurrent) this.current = conversation;
    const { id, updated, comparison } = conversation;
    const row = this.rows.find((each) => each.id === id);
    const title = titleOf(conversation);
    if (row && row.title === title && row.updated >= updated && !isCurrent) return;
    if (row) Object.assign(row, { title, updated });
    else if (conversation.messages.length && !this.search.value.trim()) this.rows.push({ id, title, updated, ...(comparison && { comparison }) });
    this.rows.sort((a, b) => b.updated - a.updated);
    this.draw();
  }

  /** @param {string} id */
  drop(id) {
    this.rows = this.rows.filter((each) => each.id !== id);
    this.draw();
  }

  // As the server said; none for one that is not listed.
  /** @param {string} id */
  revisionOf(id) {
    return this.rows.find((each) => each.id === id)?.revision;
  }

  // A row that stays is not taken out: a press that has begun on it would be lost.
  draw() {
    if (this.isEdited) return;
    const before = this.items;
    this.items = new Map();
    let day = "";
    for (const row of this.rows) {
      if (dayOf(row.updated) !== day) {
        day = dayOf(row.updated);
        this.items.set(day, before.get(day) ?? element("li", "list-day", day));
      }
      const key = JSON.stringify([row.id, row.title, row.comparison || ""]);
      const item = before.get(key) ?? this.row(row);
      const open = item.querySelector(".open");
      if (row.id === this.current?.id) open?.setAttribute("aria-current", "true");
      else open?.removeAttribute("aria-current");
      this.items.set(key, item);
    }
    const shown = [...this.items.values()];
    if (!shown.length && this.found) shown.push(element("li", "note", this.found));
    for (const old of [...this.list.children]) if (!shown.includes(/** @type {HTMLElement} */ (old))) old.remove();
    shown.forEach((item, at) => {
      if (this.list.children[at] !== item) this.list.insertBefore(item, this.list.children[at] ?? null);
    });
    this.more.hidden = !this.before;
  }

  /** @param {Chat.Row} row */
  row({ id, title, comparison }) {
    const open = comparison
      ? Object.assign(element("a"), { href: `${this.compared}${comparison}/` })
      : button("", "", () => this.open(id));
    open.className = "open";
    open.append(element("span", "list-title", title));
    open.title = title;
    const made = element("li", "list-row", open);
    const actions = element("span", "list-actions");
    if (comparison) open.append(element("span", "list-kind", "compared"));
    else actions.append(iconButton(icon("edit"), `Rename “${title}”`, () => this.edit(made, { id, title })));
    actions.append(iconButton(icon("delete"), `Delete “${title}”`, () => this.remove(id, title)));
    made.append(actions);
    return made;
  }

  // Its name becomes a field: Enter keeps what is in it, Escape what was there.
  /** @param {HTMLElement} row @param {{id: string, title: string}} of */
  edit(row, { id, title }) {
    const field = Object.assign(element("input", "list-name"), { value: title, maxLength: 80 });
    field.setAttribute("aria-label", "New name");
    const shown = [...row.children];
    let isOver = false;
    /** @param {boolean} isKept @param {boolean} [isByKey] */
    const leave = (isKept, isByKey = false) => {
      if (isOver) return;
      isOver = true;
      this.isEdited = false;
      const name = field.value.trim();
      row.replaceChildren(...shown);
      /** @type {HTMLElement | null} */
      const open = row.querySelector(".open");
      if (isByKey) open?.focus();
      this.draw();
      if (isKept && name && name !== title) this.rename(id, name);
    };
    field.addEventListener("keydown", (event) => {
      if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
      event.preventDefault(); // on a phone the drawer stays
      event.stopPropagation();
      leave(event.key === "Enter", true);
    });
    field.addEventListener("blur", () => leave(true));
    this.isEdited = true;
    row.replaceChildren(field);
    field.focus();
    field.select();
  }
}

const DAY = 86_400_000; // ms

/** @param {number} updated */
function dayOf(updated) {
  const today = new Date().setHours(0, 0, 0, 0);
  if (updated >= today) return "Today";
  if (updated >= today - DAY) return "Yesterday";
  if (updated >= today - 7 * DAY) return "Last 7 days";
  if (updated >= today - 30 * DAY) return "Last 30 days";
  return new Date(updated).toLocaleDateString("en-GB", { month: "long", year: "numeric" });
}

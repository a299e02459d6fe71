// The list of conversations: the newest first, searched on the server, more of it as one scrolls.

import { button, element } from "./chat-message.js";
import { AwayError, titleOf } from "./chat-store.js";

const TYPING = 250; // ms of silence before a search is asked

export class List {
  // `open` and `remove` are told the id and the title; comparisons have pages below `compared`.
  constructor({ store, list, search, more, compared, open, remove }) {
    Object.assign(this, { store, list, search, more, compared, open, remove });
    this.rows = []; // {id, title, updated}
    this.before = "";
    this.current = null; // the open conversation
    search.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.load(), TYPING);
    });
    more.addEventListener("click", () => this.load({ further: true }));
    new IntersectionObserver(([entry]) => {
      if (entry.isIntersecting && this.before && !this.isLoading) this.load({ further: true });
    }).observe(more);
  }

  // What the server has; what is shown stays where it does not answer.
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
  put(conversation, isCurrent = false) {
    if (isCurrent) this.current = conversation;
    const { id, updated, comparison } = conversation;
    const row = this.rows.find((each) => each.id === id);
    const title = titleOf(conversation);
    if (row?.title === title && row.updated >= updated && !isCurrent) return;
    if (row) Object.assign(row, { title, updated });
    else if (conversation.messages.length && !this.search.value.trim()) this.rows.push({ id, title, updated, comparison });
    this.rows.sort((a, b) => b.updated - a.updated);
    this.draw();
  }

  drop(id) {
    this.rows = this.rows.filter((each) => each.id !== id);
    this.draw();
  }

  // As the server said; none for one that is not listed.
  revisionOf(id) {
    return this.rows.find((each) => each.id === id)?.revision;
  }

  draw() {
    this.list.replaceChildren(...this.rows.map((row) => this.row(row)));
    if (!this.rows.length && this.found) this.list.append(element("li", "note", this.found));
    this.more.hidden = !this.before;
  }

  row({ id, title, comparison }) {
    const open = comparison
      ? Object.assign(element("a", "", title), { href: `${this.compared}${comparison}/` })
      : button(title, "", () => this.open(id));
    open.className = "open";
    open.title = title;
    if (id === this.current?.id) open.setAttribute("aria-current", "true");
    return element("li", "", open, comparison ? element("span", "note", "compared") : "", button("×", `Delete “${title}”`, () => this.remove(id, title)));
  }
}

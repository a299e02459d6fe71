// @ts-check
// Finds lines in the whole log: the server looks, hits come as it finds them.

import { plain } from "./terminal.js";
import { find } from "../page/parts.js";

const PAUSE = 150; // ms after the last key
const MOST = 250_000; // line numbers kept, here and on the server
const AGAIN = 1000; // ms between two looks at what has come since
const LOOKED = 4096; // characters of a line that a pattern sees
const BLOCK = 1024; // lines that the server takes at once, at most

/**
 * @typedef {{
 *   ask(wish: Log.Wish): void,
 *   show(number: number): void,
 *   here(): number,
 *   range(): {level: string, worst: string},
 *   mark(marker: Log.Marker | null): void,
 *   changed(): void,
 *   closed(): void,
 * }} On
 */

export class LogFind {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  later;
  /** @type {Log.Query | null} */
  query = null;
  /** Ascending. @type {number[]} */
  numbers = [];
  /** Found here while the server still looks. @type {number[]} */
  unseen = [];
  total = 0;
  before = 0;
  upto = 0;
  near = 0;
  share = 0;
  current = 0;
  error = "";
  isWaiting = false;
  wantsFirst = false;

  /** @param {HTMLFormElement} form @param {On} on */
  constructor(form, on) {
    this.form = form;
    this.on = on;
    this.count = find(form, ".log-count", HTMLElement);
    this.fields = {
      text: find(form, "[name=text]", HTMLInputElement),
      line: find(form, "[name=line]", HTMLInputElement),
      regex: find(form, "[name=regex]", HTMLInputElement),
      exact: find(form, "[name=exact]", HTMLInputElement),
      only: find(form, "[name=only]", HTMLInputElement),
      rank: find(form, "[name=rank]", HTMLSelectElement),
    };
    this.id = 0;
    form.addEventListener("input", (event) => {
      if (event.target === this.fields.line) return;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.search(), PAUSE);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#enter(1);
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
      else if (event.key === "Enter" && event.shiftKey) this.#enter(-1);
      else return;
      event.preventDefault();
    });
  }

  get isOpen() {
    return !this.form.hidden;
  }

  get isOnly() {
    return this.isOpen && this.isActive && this.fields.only.checked;
  }

  get isActive() {
    return this.query !== null;
  }

  /** @param {"text" | "line"} [field] */
  open(field = "text") {
    this.form.hidden = false;
    this.fields[field].focus();
    this.fields[field].select();
    if (!this.isActive) this.search(false);
  }

  // From what was found back to the whole log.
  showAll() {
    this.fields.only.checked = false;
    this.on.changed();
  }

  // What was typed stays for the next time, as in a pager.
  close() {
    this.form.hidden = true;
    this.#stop();
    this.#empty();
    this.on.mark(null);
    this.on.changed();
    this.#tell();
    this.on.closed();
  }

  // The socket is back: an answer may have been lost.
  again() {
    if (this.isActive) this.search(this.wantsFirst);
  }

  // Whether this line is among those that were found.
  /** @param {number} number */
  has(number) {
    const at = this.#index(number);
    return this.numbers[at] === number;
  }

  search(wantsFirst = true) {
    const query = this.#asked();
    this.#stop();
    this.#empty();
    this.query = query;
    this.on.mark(query && this.#marker(query));
    if (query) {
      this.isWaiting = true;
      this.wantsFirst = wantsFirst && !this.fields.only.checked;
      this.near = this.fields.only.checked ? 0 : this.on.here();
      this.on.ask({ find: query, id: ++this.id, near: this.near });
    }
    this.on.changed();
    this.#tell();
  }

  /** @param {Log.Found} said */
  found({ id, numbers, total, looked, upto, done, error }) {
    if (id !== this.id || !this.isActive) return;
    this.#merge(numbers);
    this.total = this.before + total;
    this.share = Math.min(looked / Math.max(upto, 1), 1);
    if (done) {
      this.isWaiting = false;
      this.error = error ?? "";
      this.before = this.total;
      this.upto = Math.max(this.upto, upto);
      for (const number of this.unseen.splice(0)) if (number > this.upto) this.#add(number);
    }
    if (this.wantsFirst) this.#nearest(looked > upto - this.near + BLOCK);
    if (numbers.length) this.on.changed();
    this.#tell();
  }

  // Lines that came after the search was made. Plain text is looked for here, at once.
  /** @param {{number: number, text: string}[]} lines */
  grew(lines) {
    if (!this.query || this.error) return;
    const { text, regex, level, rank } = this.query;
    if (regex || level !== "info" || rank) {
      this.later ??= setTimeout(() => this.#lookOn(), AGAIN);
      return;
    }
    const before = this.total;
    for (const line of lines) {
      const shown = plain(line.text);
      if (!(this.query.case ? shown : shown.toLowerCase()).includes(text)) continue;
      if (this.isWaiting) this.unseen.push(line.number);
      else if (line.number > this.upto) this.#add(line.number);
    }
    if (this.total !== before) this.on.changed();
    this.#tell();
  }

  /** @param {1 | -1} by */
  step(by) {
    clearTimeout(this.timer);
    if (this.form.hidden && this.#asked()) this.form.hidden = false;
    if (JSON.stringify(this.#asked()) !== JSON.stringify(this.query)) return this.search();
    if (!this.numbers.length) return;
    let at = this.#index(this.current || this.on.here());
    if (this.numbers[at] === this.current) at += by;
    else if (by < 0) at -= 1;
    this.#show((at + this.numbers.length) % this.numbers.length);
    this.#tell();
  }

  /** @param {1 | -1} by */
  #enter(by) {
    const line = Number(this.fields.line.value);
    if (document.activeElement !== this.fields.line) this.step(by);
    else if (line >= 1) this.on.show(line);
  }

  // What the form asks for; null when that is every line.
  /** @returns {Log.Query | null} */
  #asked() {
    const { text, regex, exact, rank } = this.fields;
    const typed = exact.checked || regex.checked ? text.value : text.value.toLowerCase();
    if (!typed && !rank.value) return null;
    return {
      text: typed,
      regex: regex.checked,
      case: exact.checked,
      ...this.on.range(),
      rank: rank.value,
    };
  }

  #lookOn() {
    this.later = undefined;
    if (!this.isActive) return;
    if (this.isWaiting) {
      this.later = setTimeout(() => this.#lookOn(), AGAIN);
      return;
    }
    this.isWaiting = true;
    this.on.ask({ find: this.query, id: ++this.id, after: this.upto });
  }

  #stop() {
    clearTimeout(this.timer);
    clearTimeout(this.later);
    this.later = undefined;
    if (this.isWaiting) this.on.ask({ find: null, id: ++this.id });
  }

  #empty() {
    this.query = null;
    this.numbers = [];
    this.unseen = [];
    this.total = this.before = this.upto = this.near = this.share = 0;
    this.current = 0;
    this.error = "";
    this.isWaiting = this.wantsFirst = false;
  }

  /** @param {number} number */
  #add(number) {
    this.total += 1;
    this.before += 1;
    if (this.numbers.length < MOST) this.numbers.push(number);
  }

  /** @param {number[]} numbers */
  #merge(numbers) {
    if (!numbers.length) return;
    const mine = this.numbers;
    const isAfter = (numbers[0] ?? 0) > (mine.at(-1) ?? 0);
    if (!mine.length || isAfter) for (const number of numbers) mine.push(number);
    else if ((numbers.at(-1) ?? 0) < (mine[0] ?? 0)) this.numbers = numbers.concat(mine);
    else this.numbers = mine.concat(numbers).sort((one, other) => one - other);
  }

  // Where the first hit at or after this line stands.
  /** @param {number} number */
  #index(number) {
    let low = 0;
    let high = this.numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (/** @type {number} */ (this.numbers[middle]) < number) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The first hit at or after what the reader looks at, else the last one before it.
  /** @param {boolean} hasPassed */
  #nearest(hasPassed) {
    if (!this.numbers.length) return;
    const at = this.#index(this.near);
    if (at === this.numbers.length && this.isWaiting && !hasPassed) return;
    this.wantsFirst = false;
    this.#show(Math.min(at, this.numbers.length - 1));
  }

  /** @param {number} at */
  #show(at) {
    this.current = this.numbers[at] ?? 0;
    this.on.show(this.current);
  }

  // Says where in a line that was found the text stands; see row.js.
  /** @param {Log.Query} query @returns {Log.Marker | null} */
  #marker(query) {
    const { text, regex } = query;
    if (!text) return null;
    let pattern;
    try {
      const source = regex ? text : text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
      pattern = new RegExp(source, query.case ? "g" : "gi");
    } catch {
      return null; // Python's syntax, which the server knows.
    }
    return (number, shown) => (!regex || this.has(number) ? edges(pattern, shown) : []);
  }

  #tell() {
    /** @param {string} words */
    const say = (words) => void (this.count.textContent = words);
    const total = this.total.toLocaleString();
    this.count.classList.toggle("is-wrong", this.error !== "");
    if (this.error) return say(this.error);
    if (!this.isActive) return say("");
    if (this.isWaiting && this.share < 1 && !this.before) {
      const share = `${Math.floor(this.share * 100)} %`;
      return say(this.total ? `${total} so far, ${share}` : `searching… ${share}`);
    }
    if (!this.total) return say("not in this log");
    const at = this.current ? this.#index(this.current) + 1 : 0;
    const most = this.numbers.length < this.total ? `${MOST.toLocaleString()} (${total} in all)` : total;
    return say(at ? `${at.toLocaleString()} of ${most}` : `${most} ${this.total === 1 ? "line" : "lines"}`);
  }
}

/** @param {RegExp} pattern @param {string} shown */
function edges(pattern, shown) {
  /** @type {number[]} */
  const found = [];
  for (const { 0: hit, index } of shown.slice(0, LOOKED).matchAll(pattern)) {
    if (hit) found.push(index, index + hit.length);
  }
  return found;
}

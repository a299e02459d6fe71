// Finds text in the whole log: the server knows the lines, also those that are not here.

import { plain } from "./log-terminal.js";

const PAUSE = 150; // ms after the last key
const MOST = 10_000;

export class LogFind {
  // on: {ask(wish), show(number), mark(text)}
  constructor(form, on) {
    this.form = form;
    this.on = on;
    this.input = form.querySelector("input");
    this.count = form.querySelector(".log-count");
    this.id = 0;
    this.#empty();
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.#search(), PAUSE);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.step(1);
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
      else if (event.key === "Enter" && event.shiftKey) this.step(-1);
      else return;
      event.preventDefault();
    });
  }

  get isOpen() {
    return !this.form.hidden;
  }

  open() {
    this.form.hidden = false;
    this.input.focus();
    this.input.select();
  }

  close() {
    this.form.hidden = true;
    this.input.value = "";
    this.#search();
    this.on.closed();
  }

  // The socket is back: an answer may have been lost.
  again() {
    if (this.text) this.#search(false);
  }

  found({ id, numbers, total, upto }) {
    if (id !== this.id) return;
    const later = this.numbers.filter((number) => number > upto);
    this.numbers = numbers.concat(later);
    this.total = total + later.length;
    this.isWaiting = false;
    if (this.wantsFirst) this.#nearest();
    this.#tell();
  }

  // Lines that came after the search was made.
  grew(lines) {
    if (!this.text) return;
    for (const line of lines) {
      if (!plain(line.text).toLowerCase().includes(this.text)) continue;
      this.total += 1;
      if (this.numbers.length < MOST) this.numbers.push(line.number);
    }
    this.#tell();
  }

  step(by) {
    clearTimeout(this.timer);
    if (this.input.value.toLowerCase() !== this.text) {
      this.#search();
    } else if (this.numbers.length) {
      this.at = (this.at + by + this.numbers.length) % this.numbers.length;
      this.on.show(this.numbers[this.at]);
      this.#tell();
    }
  }

  #search(wantsFirst = true) {
    this.#empty();
    this.text = this.input.value.toLowerCase();
    this.on.mark(this.text);
    if (this.text) {
      this.isWaiting = true;
      this.wantsFirst = wantsFirst;
      this.on.ask({ find: this.text, id: ++this.id });
    }
    this.#tell();
  }

  #empty() {
    this.text = "";
    this.numbers = [];
    this.total = 0;
    this.at = -1;
    this.isWaiting = this.wantsFirst = false;
  }

  // The first hit at or after what the reader looks at, else the last one before it.
  #nearest() {
    this.wantsFirst = false;
    if (!this.numbers.length) return;
    const here = this.on.here();
    const index = this.numbers.findIndex((number) => number >= here);
    this.at = index < 0 ? this.numbers.length - 1 : index;
    this.on.show(this.numbers[this.at]);
  }

  #tell() {
    const total = this.total.toLocaleString();
    if (!this.text) this.count.textContent = "";
    else if (this.isWaiting) this.count.textContent = "searching…";
    else if (!this.total) this.count.textContent = "not in this log";
    else this.count.textContent = `${(this.at + 1).toLocaleString()} of ${total}`;
  }
}

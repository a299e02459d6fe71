// The lines that the address points at (#L12, #L12-L20): read, set by a click, copied.

import { copy } from "./copy.js";
import { plain } from "./log-terminal.js";

const MOST = 1000; // lines copied at once, as many as the server hands out
const SAID_FOR = 1500; // ms

export class LogTarget {
  // on: {ask(wish), line(number), show(first, last)}
  constructor(log, on) {
    this.log = log;
    this.on = on;
    this.bar = log.querySelector(".log-marked");
    this.onHash = () => this.read();
    addEventListener("hashchange", this.onHash);
  }

  close() {
    removeEventListener("hashchange", this.onHash);
  }

  // Another run has come: what was marked was another log's.
  forget() {
    this.#set(null);
    if (/^#L\d/.test(location.hash)) history.replaceState(null, "", location.pathname);
  }

  read() {
    const found = /^#L(\d{1,9})(?:-L?(\d{1,9}))?$/.exec(location.hash);
    if (!found) return;
    const ends = [Number(found[1]), Number(found[2] ?? found[1])].sort((a, b) => a - b);
    this.#set(ends);
    this.on.show(...ends);
  }

  // The address stays one of this very run, also when the server has moved on.
  mark(number, isMore) {
    const other = isMore && this.lines ? this.lines[0] : number;
    const [first, last] = [Math.min(number, other), Math.max(number, other)];
    this.#set([first, last]);
    history.replaceState(null, "", `?run=${this.log.dataset.run}${this.#hash}`);
    this.on.show(first, last);
  }

  // The page has gone to other lines: these are what is copied now.
  follow(lines) {
    this.#set(lines);
  }

  get #hash() {
    const [first, last] = this.lines;
    return first === last ? `#L${first}` : `#L${first}-L${last}`;
  }

  async copyLink() {
    const address = `${location.origin}/runs/${this.log.dataset.run}/${this.#hash}`;
    await this.#say(await copy(address), "copy-link");
  }

  // With their numbers; lines that are not loaded are asked for first.
  copy(hasTimes) {
    if (!this.lines) return;
    this.hasTimes = hasTimes;
    const numbers = [];
    for (let n = this.lines[0]; n <= this.lines[1] && numbers.length < MOST; n++) numbers.push(n);
    const here = numbers.map((number) => this.on.line(number));
    if (here.every((line, index) => line?.number === numbers[index])) return this.#write(here);
    this.awaited = [numbers[0], numbers.at(-1)];
    this.on.ask({ pick: numbers });
  }

  // Whether these lines were asked for to be copied.
  copied(raw) {
    if (!this.awaited || !raw.length) return false;
    const [first, last] = this.awaited;
    if (raw[0][0] < first || raw.at(-1)[0] > last) return false;
    this.awaited = null;
    this.#write(raw.map(([number, at, , text]) => ({ number, at, text })));
    return true;
  }

  async #write(lines) {
    const width = String(lines.at(-1).number).length;
    const words = lines.map(({ number, at, text }) => {
      const time = this.hasTimes ? `  ${at}` : "";
      return `${String(number).padStart(width)}${time}  ${plain(text)}\n`;
    });
    await this.#say(await copy(words.join("")), "copy");
  }

  #say(isCopied, action) {
    const button = this.bar.querySelector(`[data-action=${action}]`);
    const words = isCopied ? "Copied" : "Not copied";
    button.textContent = words;
    document.getElementById("announcements").textContent = words;
    setTimeout(() => (button.textContent = button.dataset.words), SAID_FOR);
  }

  #set(lines) {
    this.lines = lines;
    this.bar.hidden = !lines;
    if (!lines) return;
    const [first, last] = lines;
    const count = last - first + 1;
    const words = count === 1 ? `Line ${first}` : `Lines ${first}–${last}`;
    this.bar.querySelector("span").textContent = words;
    const button = this.bar.querySelector("[data-action=copy]");
    const most = Math.min(count, MOST).toLocaleString();
    button.dataset.words = count === 1 ? "Copy line" : count > MOST ? `Copy the first ${most}` : "Copy lines";
    button.textContent = button.dataset.words;
  }
}

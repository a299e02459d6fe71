// @ts-check
// The lines that the address points at (#L12, #L12-L20): read, set by a click, copied.

import { copy } from "../page/clipboard.js";
import { plain } from "./terminal.js";
import { byId, find } from "../page/parts.js";
import { complain, toast } from "../page/toast.js";

const MOST = 1000; // lines copied at once, as many as the server hands out
const SAID_FOR = 1500; // ms

/**
 * The first and the last.
 * @typedef {[first: number, last: number]} Lines
 * @typedef {{
 *   ask(wish: Log.Wish): void,
 *   line(number: number): Log.Line | undefined,
 *   show(first: number, last: number): void,
 * }} On
 */

export class LogTarget {
  /** @type {Lines | null} */
  lines = null;
  /** @type {Lines | null} */
  awaited = null;
  hasTimes = false;
  /** @type {"copy" | "print"} */
  how = "copy";

  /** @param {HTMLElement} log @param {On} on */
  constructor(log, on) {
    this.log = log;
    this.on = on;
    this.bar = find(log, ".log-marked", HTMLElement);
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
    const [one, other] = [Number(found[1]), Number(found[2] ?? found[1])];
    /** @type {Lines} */
    const ends = [Math.min(one, other), Math.max(one, other)];
    this.#set(ends);
    this.on.show(...ends);
  }

  // The address stays one of this very run, also when the server has moved on.
  /** @param {number} number @param {boolean} isMore */
  mark(number, isMore) {
    const other = isMore && this.lines ? this.lines[0] : number;
    const [first, last] = [Math.min(number, other), Math.max(number, other)];
    this.#set([first, last]);
    history.replaceState(null, "", `?run=${this.log.dataset.run}${hashOf([first, last])}`);
    this.on.show(first, last);
  }

  // The page has gone to other lines: these are what is copied now.
  /** @param {Lines | null} lines */
  follow(lines) {
    this.#set(lines);
  }

  async copyLink() {
    if (!this.lines) return;
    const address = `${location.origin}/runs/${this.log.dataset.run}/${hashOf(this.lines)}`;
    await this.#say(await copy(address), "copy-link");
  }

  // With their numbers; lines that are not loaded are asked for first.
  /** @param {boolean} hasTimes @param {"copy" | "print"} [how] */
  copy(hasTimes, how = "copy") {
    if (!this.lines) return;
    this.hasTimes = hasTimes;
    this.how = how;
    /** @type {number[]} */
    const numbers = [];
    const [from, to] = this.lines;
    for (let n = from; n <= to && numbers.length < MOST; n++) numbers.push(n);
    const here = numbers.map((number) => this.on.line(number)).filter((line, index) => line?.number === numbers[index]);
    if (here.length === numbers.length) return this.#write(here.filter(Boolean));
    this.awaited = [from, numbers.at(-1) ?? from];
    this.on.ask({ pick: numbers });
  }

  // Whether these lines were asked for to be copied.
  /** @param {Log.Picked[]} raw */
  copied(raw) {
    const [head, tail] = [raw.at(0), raw.at(-1)];
    if (!this.awaited || !head || !tail) return false;
    const [first, last] = this.awaited;
    if (head[0] < first || tail[0] > last) return false;
    this.awaited = null;
    this.#write(raw.map(([number, at, , text]) => ({ number, at, text })));
    return true;
  }

  /** @param {{number: number, at: string, text: string}[]} lines */
  async #write(lines) {
    const width = String(lines.at(-1)?.number).length;
    const words = lines.map(({ number, at, text }) => {
      const time = this.hasTimes ? `  ${at}` : "";
      return `${String(number).padStart(width)}${time}  ${plain(text)}\n`;
    });
    if (this.how === "print") print(words.join(""));
    else await this.#say(await copy(words.join("")), "copy");
  }

  // What can be seen, as the engine wrote it.
  /** @param {Log.Line[]} lines */
  async copyShown(lines) {
    const isCopied = await copy(lines.map(({ text }) => `${plain(text)}\n`).join(""));
    if (isCopied) toast(`${lines.length} ${lines.length === 1 ? "line" : "lines"} copied.`);
    else complain("The browser does not let this page copy.");
  }

  /** @param {boolean} isCopied @param {string} action */
  #say(isCopied, action) {
    const button = find(this.bar, `[data-action=${action}]`, HTMLElement);
    const words = isCopied ? "Copied" : "Not copied";
    button.textContent = words;
    byId("announcements", HTMLElement).textContent = words;
    setTimeout(() => (button.textContent = button.dataset.words ?? ""), SAID_FOR);
  }

  /** @param {Lines | null} lines */
  #set(lines) {
    this.lines = lines;
    this.bar.hidden = !lines;
    if (!lines) return;
    const [first, last] = lines;
    const count = last - first + 1;
    const words = count === 1 ? `Line ${first}` : `Lines ${first}–${last}`;
    find(this.bar, "span", HTMLElement).textContent = words;
    const button = find(this.bar, "[data-action=copy]", HTMLElement);
    const most = Math.min(count, MOST).toLocaleString();
    button.dataset.words = count === 1 ? "Copy line" : count > MOST ? `Copy the first ${most}` : "Copy lines";
    button.textContent = button.dataset.words;
  }
}

// These lines and nothing else of the page.
/** @param {string} text */
function print(text) {
  const sheet = document.createElement("pre");
  sheet.className = "log-print";
  sheet.textContent = text;
  document.body.append(sheet);
  addEventListener("afterprint", () => sheet.remove(), { once: true });
  window.print();
}

/** @param {Lines} lines */
function hashOf([first, last]) {
  return first === last ? `#L${first}` : `#L${first}-L${last}`;
}

// @ts-check
// A log as a file: the whole of it from the server, or the lines that are shown, which the page asks for.

import { show } from "../page/dialog.js";
import { all, byId, find } from "../page/parts.js";
import { complain } from "../page/toast.js";
import { plain } from "./terminal.js";

const AT_ONCE = 1000; // lines, as many as the server hands out
const WITHIN = 20_000; // ms for one answer

/** @typedef {{ask(wish: Log.Wish): boolean | undefined, shown(): number[] | null}} On shown: null when that is every line */

export class LogDownload {
  /** @type {{numbers: Set<number>, take(raw: Log.Picked[]): void} | null} */
  awaited = null;

  /** @param {HTMLElement} root @param {On} on */
  constructor(root, on) {
    this.root = root;
    this.on = on;
    this.choice = find(root, "template", HTMLTemplateElement);
    this.link = find(root, ".log-download", HTMLAnchorElement);
  }

  ask() {
    show(this.choice.content.cloneNode(true));
    const form = find(byId("dialog", HTMLElement), "form", HTMLFormElement);
    const numbers = this.on.shown();
    const view = find(form, "[value=view]", HTMLInputElement);
    view.disabled = !numbers;
    find(form, ".log-download-view", HTMLElement).textContent = numbers
      ? `Only the lines shown (${numbers.length.toLocaleString()})`
      : "Only the lines shown (no filter is set)";
    form.addEventListener("change", () => {
      for (const box of all(form, "[name=gz], [name=raw]", HTMLInputElement)) box.disabled = view.checked;
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const wish = new FormData(form);
      find(form, "[data-close]", HTMLElement).click();
      if (wish.get("lines") === "view" && numbers) this.#save(numbers, wish.has("timestamps"));
      else follow(`${this.link.href}${query(wish)}`, "");
    });
  }

  // Whether these lines were asked for to be saved.
  /** @param {Log.Picked[]} raw */
  took(raw) {
    const { awaited } = this;
    if (!awaited || !raw.every(([number]) => awaited.numbers.has(number))) return false;
    this.awaited = null;
    awaited.take(raw);
    return true;
  }

  /** @param {number[]} numbers @param {boolean} hasTimes */
  async #save(numbers, hasTimes) {
    const words = [];
    for (let at = 0; at < numbers.length; at += AT_ONCE) {
      const raw = await this.#pick(numbers.slice(at, at + AT_ONCE));
      if (!raw) return complain("The log’s connection is gone. Try again.");
      for (const [, when, , text] of raw) words.push(`${hasTimes ? `${when} ` : ""}${plain(text)}\n`);
    }
    const address = URL.createObjectURL(new Blob(words, { type: "text/plain" }));
    follow(address, `run-${this.root.dataset.run}-lines.txt`);
    setTimeout(() => URL.revokeObjectURL(address), WITHIN);
  }

  /** @param {number[]} numbers @returns {Promise<Log.Picked[] | null>} */
  #pick(numbers) {
    return new Promise((resolve) => {
      this.awaited = { numbers: new Set(numbers), take: resolve };
      if (!this.on.ask({ pick: numbers })) resolve(null);
      setTimeout(() => resolve(null), WITHIN);
    });
  }
}

/** @param {FormData} wish */
function query(wish) {
  const names = ["raw", "timestamps", "gz"].filter((name) => wish.has(name));
  return names.length ? `?${names.join("&")}` : "";
}

/** @param {string} href @param {string} name */
function follow(href, name) {
  const link = document.createElement("a");
  link.href = href;
  link.download = name;
  link.click();
}

// @ts-check
// The chips above a log: errors or warnings alone, or both, by what the outline has found.

import { all, byId } from "../page/parts.js";

const MOST = 5000; // that the server tells of each

/** @typedef {"error" | "warning"} Level */

export class LogLevels {
  isKnown = false; // whether anybody has looked yet
  /** @type {Set<Level>} */
  chosen = new Set();
  /** @type {Record<Level, number[]>} */
  found = { error: [], warning: [] };
  /** @type {number[]} */
  evidence = [];
  /** What is shown, ascending. @type {number[]} */
  numbers = [];

  /** @param {HTMLElement} root @param {{changed(): void}} on */
  constructor(root, on) {
    this.on = on;
    this.chips = all(root, "[data-level]", HTMLButtonElement);
    for (const chip of this.chips) {
      chip.addEventListener("click", () => this.toggle(chip.dataset.level ?? ""));
    }
    this.#tell();
  }

  get isActive() {
    return this.chosen.size > 0;
  }

  /** What a search may find as long as these are chosen. */
  get range() {
    const level = !this.isActive ? "info" : this.chosen.has("warning") ? "warning" : "error";
    return { level, worst: this.isActive && !this.chosen.has("error") ? "warning" : "error" };
  }

  // What the diagnosis goes by is shown whatever is chosen.
  /** @param {number[]} error @param {number[]} warning @param {number[]} evidence */
  tell(error, warning, evidence) {
    this.isKnown = true;
    this.found = { error, warning };
    this.evidence = evidence;
    this.#update();
  }

  /** @param {string} level "": all */
  toggle(level) {
    if (level !== "error" && level !== "warning") this.chosen.clear();
    else if (!this.chosen.delete(level) && this.found[level].length) this.chosen.add(level);
    this.#update();
    const count = this.numbers.length.toLocaleString();
    const words = this.numbers.length === 1 ? "1 line is shown" : `${count} lines are shown`;
    byId("announcements", HTMLElement).textContent = this.isActive ? words : "All lines are shown";
  }

  showAll() {
    if (this.isActive) this.toggle("");
  }

  forget() {
    this.isKnown = false;
    this.chosen.clear();
    this.found = { error: [], warning: [] };
    this.evidence = [];
    this.numbers = [];
    this.#tell();
  }

  #update() {
    const before = this.numbers;
    const wanted = [...this.chosen].flatMap((level) => this.found[level]);
    this.numbers = this.isActive ? [...new Set([...wanted, ...this.evidence])].sort((one, other) => one - other) : [];
    this.#tell();
    if (before.length || this.numbers.length) this.on.changed();
  }

  #tell() {
    for (const chip of this.chips) {
      const level = /** @type {Level | ""} */ (chip.dataset.level);
      const isChosen = level ? this.chosen.has(level) : !this.isActive;
      chip.setAttribute("aria-pressed", String(isChosen));
      if (!level) continue;
      const count = this.found[level].length;
      chip.disabled = !count && !isChosen;
      const words = chip.querySelector("span");
      if (words) words.textContent = !this.isKnown ? "" : `${count.toLocaleString()}${count < MOST ? "" : "+"}`;
    }
  }
}


// @ts-check
// What is known of a log's lines: errors and warnings, phases of the start, the evidence of a diagnosis.
// Their rows show it, a lane beside them where they are in all of it, the menu lists them.

import { around, find } from "../page/parts.js";
import { whenReleased } from "../page/pointer-guard.js";

const AGAIN = 5000; // ms between two looks while the log grows
const MARK = 4; // px; what is nearer shares a mark
const NEAR = 12; // px; so far from a mark the pointer may be
const LONGEST = 70; // characters in the list of places

/** @type {Record<Log.Kind, {mark: string, words: string}>} */
const KINDS = {
  evidence: { mark: "CAUSE", words: "The diagnosis goes by this line" },
  phase: { mark: "PHASE", words: "" },
  error: { mark: "ERROR", words: "an error" },
  warning: { mark: "WARN", words: "a warning" },
  harmless: { mark: "", words: "" },
};

/**
 * `share` is how much of the log stands above a line.
 * @typedef {{
 *   ask(wish: Log.Wish): void,
 *   show(number: number): void,
 *   share(number: number): number,
 *   text(number: number): string,
 *   bad(errors: number[], warnings: number[], evidence: number[]): void,
 *   changed(): void,
 * }} On
 * @typedef {{number: number, at: number, kind: Log.Kind, words: string, count: number}} Mark
 */

export class LogOutline {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;
  /** @type {Log.Outline | null} */
  outline = null;
  /** Loaded when there are some. @type {import("./figures.js").LogFigures | undefined} */
  figures;
  said = "";
  age = 0; // grows with each log that this is the outline of

  /** @param {HTMLElement} log @param {On} on */
  constructor(log, on) {
    this.on = on;
    this.log = log;
    this.gutter = find(log, ".log-gutter", HTMLElement);
    this.tip = find(log, ".log-tip", HTMLElement);
    this.places = find(log, ".log-places", HTMLElement);
    this.ranks = find(log, ".log-rank", HTMLElement);
    this.places.addEventListener("click", (event) => {
      const place = around(event, "[data-line]", HTMLElement);
      if (place) this.on.show(Number(place.dataset.line));
    });
    this.gutter.addEventListener("click", (event) => {
      const mark = this.#near(event);
      if (mark) this.on.show(mark.number);
    });
    this.gutter.addEventListener("pointermove", (event) => this.#tip(this.#near(event)));
    this.gutter.addEventListener("pointerleave", () => this.#tip(null));
    /** @type {Map<number, Log.Note>} */
    this.notes = new Map();
    /** From the top down. @type {Mark[]} */
    this.marks = [];
    this.greys = true;
    this.toggle = find(log, "[data-action=harmless]", HTMLElement);
  }

  // Whether lines that need worry nobody are shown as such.
  /** @param {boolean} yes */
  grey(yes) {
    this.greys = yes;
    this.#show();
  }

  // What is known of a line: {kind, mark, words}, or undefined.
  /** @param {number} number */
  note(number) {
    return this.notes.get(number);
  }

  close() {
    this.forget();
    this.figures?.close();
  }

  forget() {
    this.age += 1;
    clearTimeout(this.timer);
    this.timer = undefined;
    this.notes = new Map();
    this.said = "";
    this.outline = null;
    this.figures?.forget();
    this.toggle.hidden = true;
    this.gutter.replaceChildren();
    this.marks = [];
    this.#tip(null);
    this.places.replaceChildren();
  }

  ask() {
    this.timer = undefined;
    this.on.ask({ outline: true });
  }

  grew() {
    this.timer ??= setTimeout(() => (document.hidden ? this.#later() : this.ask()), AGAIN);
  }

  // Not under a press: it marks lines, and gives the tools above them more words.
  /** @param {Log.Outline} outline */
  tell(outline) {
    const { age } = this;
    whenReleased(() => age === this.age && this.#take(outline));
  }

  /** @param {Log.Outline} outline */
  #take(outline) {
    const said = JSON.stringify(outline);
    if (said !== this.said) {
      this.said = said;
      this.outline = outline;
      this.toggle.hidden = !outline.harmless.length;
      this.#offerRanks(outline.ranks);
      this.#tellFigures(outline.figures);
      this.#show();
    } else this.#draw();
  }

  #show() {
    if (!this.outline) return;
    const { errors, warnings, phases, evidence } = this.outline;
    const told = new Set([...phases, ...evidence].map(([number]) => number));
    /** @type {Map<number, string>} */
    const harmless = new Map();
    for (const [why, numbers] of this.greys ? this.outline.harmless : []) {
      for (const number of numbers) if (!told.has(number)) harmless.set(number, why);
    }
    /** @param {number} number */
    const isBad = (number) => !harmless.has(number);
    const bad = { errors: errors.filter(isBad), warnings: warnings.filter(isBad), phases, evidence };
    this.#note(bad, harmless);
    this.#offerPlaces(bad);
    this.on.bad(bad.errors, bad.warnings, evidence.map(([number]) => number));
    this.on.changed();
    this.#draw();
  }

  /** @param {Log.Figures} figures */
  async #tellFigures(figures) {
    if (!figures.t && !this.figures) return;
    const { LogFigures } = await import("./figures.js");
    if (!this.outline) return; // another run has come meanwhile
    this.figures ??= new LogFigures(find(this.log, ".log-figures", HTMLDetailsElement), this.on);
    this.figures.tell(this.outline.figures);
  }

  #later() {
    this.timer = undefined;
    this.grew();
  }

  // The one that tells most stands last, and wins.
  /**
   * @param {Pick<Log.Outline, "errors" | "warnings" | "phases" | "evidence">} told
   * @param {Map<number, string>} harmless
   */
  #note({ errors, warnings, phases, evidence }, harmless) {
    /** @type {Map<number, Log.Note>} */
    const notes = new Map();
    for (const [number, words] of harmless) notes.set(number, { kind: "harmless", ...KINDS.harmless, words });
    for (const number of warnings) notes.set(number, { kind: "warning", ...KINDS.warning });
    for (const number of errors) notes.set(number, { kind: "error", ...KINDS.error });
    for (const [number, words] of phases) notes.set(number, { kind: "phase", ...KINDS.phase, words });
    for (const [number] of evidence) notes.set(number, { kind: "evidence", ...KINDS.evidence });
    this.notes = notes;
  }

  /** @param {Pick<Log.Outline, "errors" | "warnings" | "phases" | "evidence">} told */
  #offerPlaces({ errors, warnings, phases, evidence }) {
    const last = errors.at(-1);
    /** @type {[label: string, places: Log.Place[]][]} */
    const all = [
      ["Why it failed", evidence],
      ["Phases", phases],
      ["First error", errors.slice(0, 1).map((number) => [number, ""])],
      ["Last error", errors.length > 1 && last ? [[last, ""]] : []],
      ["First warning", warnings.slice(0, 1).map((number) => [number, ""])],
    ];
    this.places.replaceChildren(
      ...all.flatMap(([label, places]) => places.map(([number, words]) => place(label, number, words))),
    );
  }

  /** @param {string[]} ranks */
  #offerRanks(ranks) {
    const list = find(this.ranks, "select", HTMLSelectElement);
    const chosen = list.value;
    list.replaceChildren(new Option("All ranks", ""), ...ranks.map((rank) => new Option(rank, rank)));
    list.value = ranks.includes(chosen) ? chosen : "";
    this.ranks.hidden = !ranks.length;
  }

  /** @param {MouseEvent} event */
  #near({ clientY }) {
    const at = clientY - this.gutter.getBoundingClientRect().top;
    /** @param {Mark} mark */
    const far = (mark) => Math.abs(mark.at + MARK / 2 - at);
    const nearest = this.marks.toSorted((one, other) => far(one) - far(other))[0];
    return nearest && far(nearest) <= NEAR ? nearest : null;
  }

  /** @param {Mark | null} mark */
  #tip(mark) {
    this.tip.hidden = !mark;
    this.gutter.classList.toggle("is-near", mark !== null);
    if (!mark) return;
    const { number, kind, words, count, at } = mark;
    const text = kind === "phase" ? words : this.on.text(number).slice(0, 2 * LONGEST) || words;
    const more = count > 1 ? `, and ${count - 1} more near it` : "";
    this.tip.textContent = `Line ${number.toLocaleString()}: ${text}${more}`;
    this.tip.style.insetBlockStart = `${Math.max(at - MARK, 0)}px`;
  }

  #draw() {
    const height = this.gutter.parentElement?.clientHeight ?? 0;
    /** @type {Map<number, Mark>} */
    const marks = new Map();
    for (const [number, { kind, words }] of this.notes) {
      if (kind === "harmless") continue;
      const at = Math.floor((this.on.share(number) * (height - MARK)) / MARK) * MARK;
      const before = marks.get(at);
      if (before && rank(before.kind) <= rank(kind)) before.count += 1;
      else marks.set(at, { number, at, kind, words, count: (before?.count ?? 0) + 1 });
    }
    this.marks = [...marks.values()];
    this.gutter.replaceChildren(...this.marks.map(element));
  }
}

/** @param {Log.Kind} kind */
function rank(kind) {
  return Object.keys(KINDS).indexOf(kind);
}

/** @param {string} label @param {number} number @param {string} words */
function place(label, number, words) {
  const button = document.createElement("button");
  button.type = "button";
  button.role = "menuitem";
  button.dataset.line = String(number);
  const text = words.length > LONGEST ? `${words.slice(0, LONGEST)}…` : words;
  const name = label === "Phases" ? text : text ? `${label}: ${text}` : label;
  const line = document.createElement("span");
  line.className = "log-place-line";
  line.textContent = number.toLocaleString();
  button.append(name, line);
  return button;
}

/** @param {Mark} mark */
function element({ at, kind }) {
  const made = document.createElement("i");
  made.className = `is-${kind}`;
  made.style.insetBlockStart = `${at}px`;
  return made;
}

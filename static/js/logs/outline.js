// @ts-check
// What stands beside the log: marks at errors and warnings, phases of the start, the evidence of a
// diagnosis; where they are in all of it, what their rows show, and the ranks to choose from.

import { LogFigures } from "./figures.js";
import { around, find } from "../page/parts.js";

const AGAIN = 5000; // ms between two looks while the log grows
const MARK = 4; // px; what is nearer shares a mark
const LONGEST = 70; // characters in the list of places

/** @type {Record<Log.Kind, {mark: string, words: string}>} */
const KINDS = {
  evidence: { mark: "✕", words: "The diagnosis goes by this line" },
  phase: { mark: "▸", words: "" },
  error: { mark: "✕", words: "An error" },
  warning: { mark: "!", words: "A warning" },
  harmless: { mark: "", words: "" },
};

/**
 * `share` is how much of the log stands above a line.
 * @typedef {{
 *   ask(wish: Log.Wish): void,
 *   show(number: number): void,
 *   share(number: number): number,
 *   changed(): void,
 * }} On
 * @typedef {{number: number, kind: Log.Kind, words: string, count: number}} Mark
 */

export class LogOutline {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;
  /** @type {Log.Outline | null} */
  outline = null;
  said = "";

  /** @param {HTMLElement} log @param {On} on */
  constructor(log, on) {
    this.on = on;
    this.log = log;
    this.gutter = find(log, ".log-gutter", HTMLElement);
    this.places = find(log, ".log-places", HTMLElement);
    this.ranks = find(log, ".log-rank", HTMLElement);
    this.list = find(this.places, "select", HTMLSelectElement);
    this.list.addEventListener("change", () => {
      const number = Number(this.list.value);
      this.list.value = "";
      if (number) this.on.show(number);
    });
    this.gutter.addEventListener("click", (event) => {
      const mark = around(event, "a", HTMLElement);
      if (!mark || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.on.show(Number(mark.dataset.line));
    });
    this.figures = new LogFigures(find(log, ".log-figures", HTMLElement), on);
    /** @type {Map<number, Log.Note>} */
    this.notes = new Map();
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
    this.figures.close();
  }

  forget() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.notes = new Map();
    this.said = "";
    this.outline = null;
    this.figures.forget();
    this.toggle.hidden = true;
    this.gutter.replaceChildren();
    this.places.hidden = true;
  }

  ask() {
    this.timer = undefined;
    this.on.ask({ outline: true });
  }

  grew() {
    this.timer ??= setTimeout(() => (document.hidden ? this.#later() : this.ask()), AGAIN);
  }

  /** @param {Log.Outline} outline */
  tell(outline) {
    const said = JSON.stringify(outline);
    if (said !== this.said) {
      this.said = said;
      this.outline = outline;
      this.toggle.hidden = !outline.harmless.length;
      this.#offerRanks(outline.ranks);
      this.figures.tell(outline.figures);
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
    this.on.changed();
    this.#draw();
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
      ["First error", errors.slice(0, 1).map((number) => [number, "an error"])],
      ["Last error", errors.length > 1 && last ? [[last, "an error"]] : []],
      ["First warning", warnings.slice(0, 1).map((number) => [number, "a warning"])],
    ];
    const groups = all.filter(([, places]) => places.length);
    this.places.hidden = !groups.length;
    this.list.replaceChildren(
      new Option("Go to …", ""),
      ...groups.map(([label, places]) => {
        const group = document.createElement("optgroup");
        group.label = label;
        group.append(...places.map(([number, words]) => new Option(place(number, words), String(number))));
        return group;
      }),
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

  #draw() {
    const height = this.gutter.parentElement?.clientHeight ?? 0;
    /** @type {Map<number, Mark>} */
    const marks = new Map();
    for (const [number, { kind, words }] of this.notes) {
      if (kind === "harmless") continue;
      const at = Math.floor((this.on.share(number) * (height - MARK)) / MARK) * MARK;
      const before = marks.get(at);
      if (before && rank(before.kind) <= rank(kind)) before.count += 1;
      else marks.set(at, { number, kind, words, count: (before?.count ?? 0) + 1 });
    }
    this.gutter.replaceChildren(...[...marks].map(([at, mark]) => element(at, mark, this.log.dataset.run)));
  }
}

/** @param {Log.Kind} kind */
function rank(kind) {
  return Object.keys(KINDS).indexOf(kind);
}

/** @param {number} number @param {string} words */
function place(number, words) {
  const text = words.length > LONGEST ? `${words.slice(0, LONGEST)}…` : words;
  return `${number.toLocaleString()}  ${text}`;
}

/** @param {number} at @param {Mark} mark @param {string | undefined} run */
function element(at, { number, kind, words, count }, run) {
  const link = document.createElement("a");
  link.href = `/runs/${run}/#L${number}`;
  link.tabIndex = -1;
  link.className = `is-${kind}`;
  link.dataset.line = String(number);
  link.style.insetBlockStart = `${at}px`;
  link.title = `Line ${number.toLocaleString()}: ${words}${count > 1 ? `, and ${count - 1} more near it` : ""}`;
  return link;
}

// @ts-check
// The figures of one question's answers beside one another, as bars.

import { element, seconds } from "../../page/dom.js";
import { rateOf } from "../chat/figures.js";

/**
 * A column and its answer to this question, if there is one; `answers` are all of it up to this one.
 * @typedef {{name: string, message: Chat.Answer | undefined, answers: Chat.Answer[]}} Row
 * @typedef {{
 *   title: string,
 *   note: string,
 *   read: (message: Chat.Answer) => number | null,
 *   words: (figure: number) => string,
 *   best: (...figures: number[]) => number,
 * }} Measure
 */

const ENOUGH = 3; // answers of each column before one is called the fastest

/** @type {Measure[]} */
export const MEASURES = [
  { title: "First token", note: "shorter is better", read: ({ firstMs }) => firstMs, words: seconds, best: Math.min },
  { title: "Tokens a second", note: "longer is better", read: rateOf, words: (rate) => rate.toFixed(1), best: Math.max },
];

export class Bars {
  constructor() {
    this.root = element("div", "bars");
    this.root.hidden = true;
  }

  /** @param {Row[]} rows */
  show(rows) {
    const isOver = !rows.some(({ message }) => message?.running);
    const drawn = MEASURES.map((measure) => group(measure, rows, isOver)).filter(Boolean);
    this.root.replaceChildren(...drawn);
    this.root.hidden = !drawn.length;
  }
}

/** @param {Measure} measure @param {Row[]} rows @param {boolean} isOver */
function group({ title, note, read, words, best }, rows, isOver) {
  const figures = rows.map(({ message }) => (message ? read(message) : null) ?? null);
  const known = figures.filter((each) => each !== null);
  if (!known.length) return null;
  const longest = Math.max(...known);
  const winners = isOver ? fastest(rows, { read, words, best }) : new Set();
  const lines = rows.map(({ name, message }, at) => {
    const figure = figures[at] ?? null;
    const bar = element("span", "bar");
    bar.style.inlineSize = figure === null ? "0" : `${(100 * figure) / longest}%`;
    const isBest = winners.has(at);
    const value = figure === null ? (message?.running ? "…" : "none") : words(figure);
    const said = element("span", "bar-value", value, ...(isBest ? [" ", bestMark(rows)] : []));
    return element("li", isBest ? "bar-best" : "", element("span", "bar-name", name), element("span", "bar-track", bar), said);
  });
  const few = Math.min(...rows.map(({ answers }) => answers.length)) < ENOUGH;
  const said = few && isOver && rows.length > 1 ? `${note}; the fastest is named after ${ENOUGH} answers of each` : note;
  const head = element("p", "bars-title", element("strong", "", title), ` ${said}`);
  return element("section", "bars-of", head, element("ul", "", ...lines));
}

// The places of the columns that are the fastest by the median of their answers: none before there
// are enough of each, or where all read the same.
/** @param {Pick<Row, "answers">[]} rows @param {Pick<Measure, "read" | "words" | "best">} measure */
export function fastest(rows, { read, words, best }) {
  const figures = rows.map(({ answers }) => answers.map(read).filter((each) => each !== null));
  if (figures.some((each) => each.length < ENOUGH)) return new Set();
  const medians = figures.map(median);
  const winner = words(best(...medians));
  const told = medians.map(words);
  if (new Set(told).size < 2) return new Set();
  return new Set(told.flatMap((each, at) => (each === winner ? [at] : [])));
}

/** @param {number[]} figures */
function median(figures) {
  const sorted = [...figures].sort((one, other) => one - other);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? 0) + (sorted[Math.floor(middle)] ?? 0)) / 2;
}

/** @param {Row[]} rows */
function bestMark(rows) {
  const count = Math.min(...rows.map(({ answers }) => answers.length));
  const mark = element("strong", "best", "fastest");
  mark.title = `By the median of ${count} answers`;
  return mark;
}

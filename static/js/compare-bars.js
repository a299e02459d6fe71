// @ts-check
// The figures of one question's answers beside one another, as bars.

import { element, seconds } from "./chat-dom.js";
import { rateOf } from "./chat-figures.js";

/**
 * Whose answer; none: no message.
 * @typedef {{name: string, message: Chat.Answer | undefined}} Row
 * @typedef {{
 *   title: string,
 *   note: string,
 *   read: (message: Chat.Answer) => number | null,
 *   words: (figure: number) => string,
 *   best: (...figures: number[]) => number,
 * }} Measure
 */

/** @type {Measure[]} */
const MEASURES = [
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
  const winner = words(best(...known));
  // What reads the same is no faster.
  const isRace = isOver && new Set(known.map(words)).size > 1;
  const lines = rows.map(({ name, message }, at) => {
    const figure = figures[at] ?? null;
    const bar = element("span", "bar");
    bar.style.inlineSize = figure === null ? "0" : `${(100 * figure) / longest}%`;
    const isBest = isRace && figure !== null && words(figure) === winner;
    const value = figure === null ? (message?.running ? "…" : "none") : words(figure);
    const said = element("span", "bar-value", value, ...(isBest ? [" ", element("strong", "best", "fastest")] : []));
    return element("li", isBest ? "bar-best" : "", element("span", "bar-name", name), element("span", "bar-track", bar), said);
  });
  const head = element("p", "bars-title", element("strong", "", title), ` ${note}`);
  return element("section", "bars-of", head, element("ul", "", ...lines));
}

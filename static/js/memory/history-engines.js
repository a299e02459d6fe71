// @ts-check
// The charts of what engines did: a line a server, or the lines of the only one.

import { tone } from "./history-places.js";
import { find } from "../page/parts.js";
import { sectionOf } from "./plot.js";

/** @import { Charts } from "./history-charts.js" */

const SHOWN = { half: "p50", most: "p95" };
/**
 * `by`: what the values are multiplied by; `of`: which line stands for a server among several.
 * @typedef {{unit: string, lines: [column: string, words: string][], by?: number, of?: number, least?: number, range?: [number, number]}} Chart
 */

/** @type {Record<string, Chart>} */
const ENGINES = {
  requests: { unit: "", lines: [["running", "running"], ["queued", "queued"]], least: 1 },
  tokens: { unit: "", lines: [["generation", "generated"]], least: 1 },
  prompts: { unit: "", lines: [["prompt", ""]], least: 1 },
  first: { unit: "s", lines: [["first_p50", SHOWN.half], ["first_p95", SHOWN.most]], least: 0.1, of: 1 },
  inter: { unit: "ms", by: 1000, lines: [["token_p50", SHOWN.half], ["token_p95", SHOWN.most]], least: 10, of: 1 },
  kv: { unit: "%", by: 100, lines: [["kv", ""]], range: [0, 100] },
  prefix: { unit: "%", by: 100, lines: [["prefix", ""]], range: [0, 100] },
};
const DASHES = [undefined, [4, 3]];
const MOST = 6;

// The lines of a chart. Of several servers one line each.
/** @param {string} name @param {Past.Engines} engines @returns {Past.Line[]} */
export function lines(name, { servers }) {
  const { lines: figures, by = 1, of = 0 } = /** @type {Chart} */ (ENGINES[name]);
  const slugs = Object.keys(servers);
  const shown = slugs.length === 1 ? figures : figures.slice(of, of + 1);
  return slugs
    .flatMap((slug) =>
      shown.map(([column, words], place) => ({
        slug,
        words: slugs.length === 1 ? words || slug : slug,
        values: (servers[slug]?.[column] ?? []).map((value) => (value === null ? null : value * by)),
        tone: tone(`=server:${slug}`),
        dash: DASHES[place],
      })),
    )
    .filter(({ values }) => values.some((value) => value !== null));
}

// Draws all; `colour` resolves the shade of a line.
/** @param {Charts} charts @param {Past.Engines} engines @param {(line: Past.Line) => string} colour */
export function draw(charts, engines, colour) {
  for (const [name, chart] of Object.entries(ENGINES)) {
    const { unit, range, least } = chart;
    const place = charts.place(`engine-${name}`);
    const shown = lines(name, engines);
    sectionOf(place).hidden = !shown.length;
    if (!shown.length) continue;
    const most = shown.reduce((high, { values }) => values.reduce((/** @type {number} */ greatest, value) => Math.max(greatest, value ?? 0), high), least ?? 0);
    charts.add(`engine-${name}`, [engines.t, ...shown.map(({ values }) => values)], {
      unit,
      range: range ?? [0, most * 1.1],
      series: shown.map((line) => ({ stroke: colour(line), width: 1.5, dash: line.dash, points: { show: false } })),
      pointed: (index) => read(chart, place, shown, engines.t, index),
    });
    read(chart, place, shown, engines.t, null);
  }
}

// Says beside the title what the pointer is at.
/**
 * @param {Chart} chart
 * @param {HTMLElement} place
 * @param {Past.Line[]} shown
 * @param {number[]} times
 * @param {number | null} index
 */
function read({ unit, lines: figures, of = 0 }, place, shown, times, index) {
  const title = find(sectionOf(place), "h2", HTMLElement);
  // A title has room for so many; the pointer tells of the first ones.
  const told = shown.slice(0, MOST).map(({ words, values }) => {
    const at = index ?? values.findLastIndex((value) => value !== null);
    const value = values[at];
    return value === null || value === undefined ? "" : `${words} ${short(value)}${unit && ` ${unit}`}`;
  });
  const at = index === null ? undefined : times[index];
  const when = at === undefined ? "" : `at ${new Date(at * 1000).toLocaleTimeString([], { hourCycle: "h23" })}`;
  // Of several servers each has one line of the two.
  const one = of && new Set(shown.map(({ slug }) => slug)).size > 1 ? `, ${figures[of]?.[1]}` : "";
  title.textContent = [(title.dataset.title ?? "") + one, ...told, when].filter(Boolean).join(" · ");
}

/** @param {number} value */
function short(value) {
  if (value >= 100) return Math.round(value).toLocaleString();
  return String(Number(value.toPrecision(2)));
}

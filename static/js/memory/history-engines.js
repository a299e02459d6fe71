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

/** @type {Record<string, string>} */
const TITLES = {
  requests: "Requests", tokens: "Tokens/s", prompts: "Prompt tokens/s", first: "First token",
  inter: "Between tokens", kv: "KV cache", prefix: "Prefix hits",
};

/** The title of a chart: of several servers each has one line of the two. @param {string} name @param {number} servers */
function titleOf(name, servers) {
  const { lines: figures, of = 0 } = /** @type {Chart} */ (ENGINES[name]);
  return servers > 1 && of ? `${TITLES[name]}, ${figures[of]?.[1]}` : (TITLES[name] ?? name);
}

/**
 * Draws all, and returns what a readout says of them; `colour` resolves the shade of a line.
 * @param {Charts} charts @param {Past.Engines} engines @param {(line: Past.Line) => string} colour
 * @returns {Past.Reading[]}
 */
export function draw(charts, engines, colour) {
  const count = Object.keys(engines.servers).length;
  return Object.entries(ENGINES).flatMap(([name, { unit, range, least }]) => {
    const place = charts.place(`engine-${name}`);
    const shown = lines(name, engines);
    sectionOf(place).hidden = !shown.length;
    if (!shown.length) return [];
    find(sectionOf(place), "h2", HTMLElement).textContent = titleOf(name, count);
    const most = shown.reduce((high, { values }) => values.reduce((/** @type {number} */ greatest, value) => Math.max(greatest, value ?? 0), high), least ?? 0);
    charts.add(`engine-${name}`, [engines.t, ...shown.map(({ values }) => values)], {
      unit,
      range: range ?? [0, most * 1.1],
      series: shown.map((line) => ({ stroke: colour(line), width: 1.5, dash: line.dash, points: { show: false } })),
    });
    // Of one server the lines have words; of several they are told apart by their shade.
    const told = shown.map(({ words, slug, tone: shade, values }) => (count > 1 ? { words: slug, tone: shade, values } : { words: words === slug ? "" : words, tone: 0, values }));
    return [{ title: TITLES[name] ?? name, unit, times: engines.t, lines: told }];
  });
}

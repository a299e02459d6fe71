// The charts of what engines did: a line a server, or the lines of the only one.

import { tone } from "./history-stack.js";

const SHOWN = { half: "half within", most: "95 % within" };
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

/** The lines of a chart: {slug, words, values, tone, dash}. Of several servers one line each. */
export function lines(name, { servers }) {
  const { lines: figures, by = 1, of = 0 } = ENGINES[name];
  const slugs = Object.keys(servers);
  const shown = slugs.length === 1 ? figures : [figures[of]];
  return slugs
    .flatMap((slug) =>
      shown.map(([column, words], place) => ({
        slug,
        words: slugs.length === 1 ? words || slug : slug,
        values: (servers[slug][column] ?? []).map((value) => (value === null ? null : value * by)),
        tone: tone(`=server:${slug}`),
        dash: DASHES[place],
      })),
    )
    .filter(({ values }) => values.some((value) => value !== null));
}

/** Draws all; `colour` resolves the shade of a line. */
export function draw(charts, engines, colour) {
  for (const [name, { unit, range, least }] of Object.entries(ENGINES)) {
    const place = charts.places[`engine-${name}`];
    const shown = lines(name, engines);
    place.closest("section").hidden = !shown.length;
    if (!shown.length) continue;
    const most = shown.reduce((high, { values }) => values.reduce((greatest, value) => Math.max(greatest, value ?? 0), high), least ?? 0);
    charts.add(`engine-${name}`, [engines.t, ...shown.map(({ values }) => values)], {
      unit,
      range: range ?? [0, most * 1.1],
      series: shown.map((line) => ({ stroke: colour(line), width: 1.5, dash: line.dash, points: { show: false } })),
      pointed: (index) => read(name, place, shown, engines.t, index),
    });
    read(name, place, shown, engines.t, null);
  }
}

/** Says beside the title what the pointer is at. */
function read(name, place, shown, times, index) {
  const { unit, lines: figures, of = 0 } = ENGINES[name];
  const title = place.closest("section").querySelector("h2");
  // A title has room for so many; the pointer tells of the first ones.
  const told = shown.slice(0, MOST).map(({ words, values }) => {
    const at = index ?? values.findLastIndex((value) => value !== null);
    const value = values[at];
    return value === null || value === undefined ? "" : `${words} ${short(value)}${unit && ` ${unit}`}`;
  });
  const when = index === null || times[index] === undefined ? "" : `at ${new Date(times[index] * 1000).toLocaleTimeString([], { hourCycle: "h23" })}`;
  // Of several servers each has one line of the two.
  const one = of && new Set(shown.map(({ slug }) => slug)).size > 1 ? `, ${figures[of][1]}` : "";
  title.textContent = [title.dataset.title + one, ...told, when].filter(Boolean).join(" · ");
}

function short(value) {
  if (value >= 100) return Math.round(value).toLocaleString();
  return String(Number(value.toPrecision(2)));
}

// @ts-check
// The charts of a history, one above the other, with one cursor for all.

import uPlot from "../page/uplot.js";
import { draw as drawEngines } from "./history-engines.js";
import { spaced } from "./history-places.js";
import { resolved, sectionOf } from "./plot.js";

const ROWS = 4; // of labels
const TICK = 7; // px, of a mark without room for a line
const PHASES_FROM = 40; // px that a start must span: below, its phases would be one blot
/** @type {{name: "start" | "ready" | "end", words: string, dashes: number[]}[]} */
const MARKS = [
  { name: "start", words: "starts", dashes: [2, 4] },
  { name: "ready", words: "is ready", dashes: [] },
  { name: "end", words: "ends", dashes: [8, 3] },
];


/**
 * @typedef {{unit: string, by: number, range?: [number, number], colour: string}} Figure
 * @typedef {{
 *   unit: string,
 *   range: [number, number],
 *   series: uPlot.Series[],
 *   labels?: boolean,
 *   pointed?: (index: number | null) => void,
 * }} How
 */

/** @type {Record<string, Figure>} */
const FIGURES = {
  util: { unit: "%", by: 1, range: [0, 100], colour: "--accent" },
  power: { unit: "W", by: 10, colour: "--attention" },
  temperature: { unit: "°C", by: 1, colour: "--failed" },
};

const DAY = 86_400;

/** @param {number} seconds @param {Intl.DateTimeFormatOptions} options */
const said = (seconds, options) => new Date(seconds * 1000).toLocaleString("en-GB", { hourCycle: "h23", ...options });

// The label of a place on the time axis: the time, and below it the day where a new one begins.
/** @param {number} at @param {number | undefined} before @param {number} step */
function moment(at, before, step) {
  /** @param {number} seconds */
  const day = (seconds) => said(seconds, { day: "numeric", month: "short" });
  if (step >= DAY) return day(at);
  const time = said(at, { hour: "2-digit", minute: "2-digit", ...(step < 60 ? { second: "2-digit" } : {}) });
  return before === undefined || day(before) !== day(at) ? `${time}\n${day(at)}` : time;
}

export class Charts {
  /** What is drawn now. @type {Past.View | null} */
  view = null;
  /** @type {{plot: uPlot, place: HTMLElement}[]} */
  plots = [];

  /**
   * `places` are elements by chart; `chosen` is called with a range (null: a wider one).
   * @param {Record<string, HTMLElement>} places
   * @param {{chosen(range: Past.Range | null): void, pointed(index: number | null): void}} on
   */
  constructor(places, { chosen, pointed }) {
    this.places = places;
    this.chosen = chosen;
    this.pointed = pointed;
    this.sync = uPlot.sync("history");
    this.resizing = new ResizeObserver(() => {
      for (const { plot, place } of this.plots) plot.setSize(this.size(place));
    });
    for (const place of Object.values(places)) this.resizing.observe(place);
  }

  /** @param {string} name */
  place(name) {
    const found = this.places[name];
    if (!found) throw new TypeError(`The page has no place for the chart ${name}.`);
    return found;
  }

  end() {
    this.resizing.disconnect();
    this.clear();
  }

  clear() {
    for (const { plot } of this.plots) {
      this.sync.unsub(plot);
      plot.destroy();
    }
    this.plots = [];
  }

  /** @param {HTMLElement} place */
  size(place) {
    return { width: Math.max(60, place.clientWidth), height: Math.max(40, place.clientHeight) };
  }

  /** @param {Past.View} view */
  draw(view) {
    this.clear();
    this.view = view;
    const top = view.heights.at(-1) ?? [];
    const total = top.reduce((/** @type {number} */ most, value) => Math.max(most, value ?? 0), 0);
    const shown = view.stack.map((layer, index) => ({ layer, heights: view.heights[index] ?? [], colour: view.colours[index] }));
    sectionOf(this.place("memory")).hidden = !shown.length;
    // The highest first: each lower one is painted over it.
    const painted = shown.filter(({ layer }) => layer.kind !== "free").reverse();
    if (shown.length) this.add("memory", [view.t, ...painted.map((each) => each.heights)], {
      unit: "GiB",
      range: [0, total || 1],
      series: painted.map(({ colour }) => ({ fill: colour, width: 0, points: { show: false } })),
      labels: true,
    });
    for (const [name, figure] of Object.entries(FIGURES)) this.addFigure(name, figure, view);
    drawEngines(this, view.engines, ({ tone }) => resolved(this.place("engine-requests"), `--tone-${tone}`));
  }

  /** @param {string} name @param {Figure} figure @param {Past.View} view */
  addFigure(name, { unit, by, range, colour }, view) {
    const place = this.place(name);
    sectionOf(place).hidden = !view.columns[name];
    if (!view.columns[name]) return;
    /** @param {string} column */
    const scaled = (column) => (view.columns[column] ?? []).map((value) => (value === null ? null : value / by));
    const means = scaled(name);
    const greatest = view.columns[`${name}_max`] ? scaled(`${name}_max`) : null;
    const stroke = resolved(place, colour);
    const faint = stroke.replace(/^rgb\((.*)\)$/, "rgba($1, 0.45)");
    const top = (greatest ?? means).reduce((/** @type {number} */ most, value) => Math.max(most, value ?? 0), 0);
    this.add(name, [view.t, ...(greatest ? [greatest] : []), means], {
      unit,
      range: range ?? [0, top * 1.1 || 1],
      series: [
        ...(greatest ? [{ stroke: faint, width: 1, points: { show: false } }] : []),
        { stroke, width: 1.5, points: { show: false } },
      ],
    });
  }

  /** @param {string} name @param {uPlot.AlignedData} data @param {How} how */
  add(name, data, { unit, range, series, labels = false, pointed = this.pointed }) {
    const place = this.place(name);
    const [quiet, line] = [resolved(place, "--quiet"), resolved(place, "--line")];
    const axis = { stroke: quiet, ticks: { show: false }, font: "12px system-ui", grid: { stroke: line, width: 1 } };
    const plot = new uPlot(
      {
        ...this.size(place),
        padding: [8, 20, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: true, y: false, setScale: false },
          sync: { key: this.sync.key },
          bind: { dblclick: () => () => null },
        },
        scales: { x: { time: true, range: () => [this.view?.from ?? null, this.view?.to ?? null] }, y: { range: () => range } },
        axes: [
          { ...axis, space: 80, size: 44, values: (_plot, splits, _axis, _space, step) => splits.map((at, index) => moment(at, splits[index - 1], step)) },
          { ...axis, size: 64, values: (_plot, splits) => splits.map((value) => `${value} ${unit}`.trim()) },
        ],
        series: [{}, ...series],
        hooks: {
          setCursor: [(each) => pointed(each.cursor.idx ?? null)],
          setSelect: [(each) => this.selected(each)],
          draw: [(each) => this.mark(each, labels)],
        },
      },
      data,
      place,
    );
    plot.over.addEventListener("dblclick", () => this.chosen(null));
    this.plots.push({ plot, place });
  }

  /** @param {uPlot} plot */
  selected(plot) {
    const { left, width } = plot.select;
    if (width < 6) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.chosen([from, to]);
  }

  /** @param {uPlot} plot @param {Past.Run} run */
  isWide(plot, { start, ready, end }) {
    return plot.valToPos(ready ?? end ?? this.view?.now ?? start, "x") - plot.valToPos(start, "x") >= PHASES_FROM;
  }

  /** @param {uPlot} plot @param {boolean} labels */
  mark(plot, labels) {
    const { view } = this;
    if (!view) return;
    const { ctx, bbox } = plot;
    const density = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    /** @param {string} name */
    const colourOf = (name) => resolved(plot.root, name);
    const [text, ground, failed, quiet] = [colourOf("--text"), colourOf("--raised"), colourOf("--failed"), colourOf("--quiet")];
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.lineWidth = density;
    ctx.font = `${11 * density}px system-ui`;
    const runs = view.runs.flatMap((run) =>
      MARKS.map(({ name, words, dashes }) => ({ words: `${run.server} ${words}`, dashes, at: run[name], colour: text })),
    );
    const phases = view.runs.filter((run) => this.isWide(plot, run)).flatMap((run) =>
      run.phases.map(({ words, at }) => ({ words: `${run.server}: ${words}`, dashes: [1, 5], at, colour: quiet })),
    );
    const alerts = view.alerts.map(({ title, start, severity }) => ({ words: `⚑ ${title}`, dashes: [1, 3], at: start, colour: severity === "info" ? text : failed }));
    const marks = [...runs, ...phases, ...alerts]
      .flatMap(({ at, ...mark }) => (at !== null && at >= view.from && at <= view.to ? [{ at, ...mark }] : []))
      .sort((one, other) => one.at - other.at);
    const ends = Array.from({ length: ROWS }, () => -Infinity); // of the last label in each row
    const places = marks.map(({ at }) => Math.round(plot.valToPos(at, "x", true)));
    const crosses = spaced(places.map((place) => place / density), bbox.width / density);
    for (const [index, { words, dashes, colour }] of marks.entries()) {
      const [x = 0, isLine = false] = [places[index], crosses[index]];
      ctx.globalAlpha = 0.55;
      ctx.strokeStyle = colour;
      ctx.setLineDash(isLine ? dashes.map((length) => length * density) : []);
      ctx.beginPath();
      ctx.moveTo(x, isLine ? bbox.top : bbox.top + bbox.height - TICK * density);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (!labels || !isLine) continue;
      const width = ctx.measureText(words).width;
      // Beside the line, on its left where the chart ends; left out where no row has room.
      const left = x + width + 6 * density > bbox.left + bbox.width ? x - width - 4 * density : x + 4 * density;
      const row = ends.findIndex((end) => end < left);
      if (row < 0) continue;
      ends[row] = left + width + 8 * density;
      const top = bbox.top + row * 16 * density;
      ctx.globalAlpha = 0.8;
      ctx.fillStyle = ground;
      ctx.fillRect(left - 2 * density, top + density, width + 4 * density, 14 * density);
      ctx.globalAlpha = 1;
      ctx.fillStyle = colour;
      ctx.fillText(words, left, top + 12 * density);
    }
    ctx.restore();
  }
}

// @ts-check
// The charts of a history, with one cursor for all.

import uPlot from "../page/uplot.js";
import { draw as drawEngines } from "./history-engines.js";
import { clock, day, heights } from "./history-places.js";
import { resolved, sectionOf } from "./plot.js";

/**
 * @typedef {{unit: string, by: number, range?: [number, number], colour: string}} Figure
 * @typedef {{
 *   unit: string,
 *   range: [number, number],
 *   series: uPlot.Series[],
 * }} How
 */

/** @type {Record<string, Figure>} */
const FIGURES = {
  util: { unit: "%", by: 1, range: [0, 100], colour: "--accent" },
  power: { unit: "W", by: 10, colour: "--attention" },
  temperature: { unit: "°C", by: 1, colour: "--failed" },
};

const DAY = 86_400;

// The label of a place on the time axis: the time, and below it the day where a new one begins.
/** @param {number} at @param {number | undefined} before @param {number} step */
function moment(at, before, step) {
  if (step >= DAY) return day(at);
  const time = clock(at, step < 60);
  return before === undefined || day(before) !== day(at) ? `${time}\n${day(at)}` : time;
}

export class Charts {
  /** What is drawn now. @type {Past.View | null} */
  view = null;
  /** @type {{plot: uPlot, place: HTMLElement}[]} */
  plots = [];
  /** The moment under the pointer. @type {number | null} */
  at = null;

  /**
   * `places` are elements by chart; `chosen` is called with a range (null: a wider one).
   * @param {Record<string, HTMLElement>} places
   * @param {{chosen(range: Past.Range | null): void, pointed(at: number | null): void}} on
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

  /**
   * Draws all but the layers and servers whose keys are hidden, and returns what a readout says of engines.
   * @param {Past.View} view @param {ReadonlySet<string>} hidden
   */
  draw(view, hidden) {
    this.clear();
    this.view = view;
    const top = heights(view.stack).at(-1) ?? [];
    const total = top.reduce((/** @type {number} */ most, value) => Math.max(most, value ?? 0), 0);
    const layers = view.stack.filter(({ key }) => !hidden.has(key));
    const sums = heights(layers);
    const shown = layers.map((layer, index) => ({ layer, heights: sums[index] ?? [], colour: view.colours.get(layer.key) }));
    sectionOf(this.place("memory")).hidden = !view.stack.length;
    // The highest first: each lower one is painted over it.
    const painted = shown.filter(({ layer }) => layer.kind !== "free").reverse();
    if (shown.length) this.add("memory", [view.t, ...painted.map((each) => each.heights)], {
      unit: "GiB",
      range: [0, total || 1],
      series: painted.map(({ colour }) => ({ fill: colour, width: 0, points: { show: false } })),
    });
    for (const [name, figure] of Object.entries(FIGURES)) this.addFigure(name, figure, view);
    const servers = Object.entries(view.engines.servers).filter(([slug]) => !hidden.has(`=server:${slug}`));
    const engines = { ...view.engines, servers: Object.fromEntries(servers) };
    return drawEngines(this, engines, ({ tone }) => resolved(this.place("engine-requests"), `--tone-${tone}`));
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
  add(name, data, { unit, range, series }) {
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
          { ...axis, size: 56, values: (_plot, splits) => splits.map((value) => `${value} ${unit}`.trim()) },
        ],
        series: [{}, ...series],
        hooks: {
          setCursor: [(each) => this.follow(each)],
          setSelect: [(each) => this.selected(each)],
        },
      },
      data,
      place,
    );
    plot.over.addEventListener("dblclick", () => this.chosen(null));
    this.plots.push({ plot, place });
  }

  // Every chart follows the one that the pointer is in.
  /** @param {uPlot} plot */
  follow(plot) {
    const { left = -1 } = plot.cursor;
    const at = left < 0 ? null : plot.posToVal(left, "x");
    if (at === this.at) return;
    this.at = at;
    this.pointed(at);
  }

  /** @param {uPlot} plot */
  selected(plot) {
    const { left, width } = plot.select;
    if (width < 6) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.chosen([from, to]);
  }
}

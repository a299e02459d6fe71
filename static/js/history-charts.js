// The charts of a history, one above the other, with one cursor for all.

import uPlot from "/static/vendor/uplot/uPlot.esm.js";
import { draw as drawEngines } from "./history-engines.js";
import { resolved } from "./plot.js";

const ROWS = 4; // of labels
const WORDS = { start: "starts", ready: "is ready", end: "ends" };
const PHASES_FROM = 40; // px that a start must span: below, its phases would be one blot
const MARKS = { start: [2, 4], ready: [], end: [8, 3] }; // dashes

const FIGURES = {
  util: { unit: "%", by: 1, range: [0, 100], colour: "--accent" },
  power: { unit: "W", by: 10, colour: "--attention" },
  temperature: { unit: "°C", by: 1, colour: "--failed" },
};

const DAY = 86_400;
const said = (seconds, options) => new Date(seconds * 1000).toLocaleString([], { hourCycle: "h23", ...options });

/** The label of a place on the time axis: the time, and below it the day where a new one begins. */
function moment(at, before, step) {
  const day = (seconds) => said(seconds, { day: "numeric", month: "short" });
  if (step >= DAY) return day(at);
  const time = said(at, { hour: "2-digit", minute: "2-digit", ...(step < 60 ? { second: "2-digit" } : {}) });
  return before === undefined || day(before) !== day(at) ? `${time}\n${day(at)}` : time;
}

export class Charts {
  /** `places` are elements by chart; `chosen` is called with a range, `pointed` with an index. */
  constructor(places, { chosen, pointed }) {
    this.places = places;
    this.chosen = chosen;
    this.pointed = pointed;
    this.plots = [];
    this.sync = uPlot.sync("history");
    this.resizing = new ResizeObserver(() => {
      for (const { plot, place } of this.plots) plot.setSize(this.size(place));
    });
    for (const place of Object.values(places)) this.resizing.observe(place);
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

  size(place) {
    return { width: Math.max(60, place.clientWidth), height: Math.max(40, place.clientHeight) };
  }

  /** `view` is {from, to, t, columns, stack, heights, colours, runs, alerts, engines}. */
  draw(view) {
    this.clear();
    this.view = view;
    const top = view.heights.at(-1) ?? [];
    const total = top.reduce((most, value) => Math.max(most, value ?? 0), 0);
    const shown = view.stack.map((layer, index) => ({ layer, heights: view.heights[index], colour: view.colours[index] }));
    this.places.memory.closest("section").hidden = !shown.length;
    // The highest first: each lower one is painted over it.
    const painted = shown.filter(({ layer }) => layer.kind !== "free").reverse();
    if (shown.length) this.add("memory", [view.t, ...painted.map((each) => each.heights)], {
      unit: "GiB",
      range: [0, total || 1],
      series: painted.map(({ colour }) => ({ fill: colour, width: 0, points: { show: false } })),
      labels: true,
    });
    for (const [name, figure] of Object.entries(FIGURES)) this.addFigure(name, figure, view);
    drawEngines(this, view.engines, ({ tone }) => resolved(this.places["engine-requests"], `--tone-${tone}`));
  }

  addFigure(name, { unit, by, range, colour }, view) {
    const place = this.places[name];
    place.closest("section").hidden = !view.columns[name];
    if (!view.columns[name]) return;
    const scaled = (column) => (view.columns[column] ?? []).map((value) => (value === null ? null : value / by));
    const means = scaled(name);
    const greatest = view.columns[`${name}_max`] ? scaled(`${name}_max`) : null;
    const stroke = resolved(place, colour);
    const faint = stroke.replace(/^rgb\((.*)\)$/, "rgba($1, 0.45)");
    const top = (greatest ?? means).reduce((most, value) => Math.max(most, value ?? 0), 0);
    this.add(name, [view.t, ...(greatest ? [greatest] : []), means], {
      unit,
      range: range ?? [0, top * 1.1 || 1],
      series: [
        ...(greatest ? [{ stroke: faint, width: 1, points: { show: false } }] : []),
        { stroke, width: 1.5, points: { show: false } },
      ],
    });
  }

  add(name, data, { unit, range, series, labels = false, pointed = this.pointed }) {
    const place = this.places[name];
    const [quiet, line] = ["--quiet", "--line"].map((each) => resolved(place, each));
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
        scales: { x: { time: true, range: () => [this.view.from, this.view.to] }, y: { range: () => range } },
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

  selected(plot) {
    const { left, width } = plot.select;
    if (width < 6) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.chosen([from, to]);
  }

  isWide(plot, { start, ready, end }) {
    return plot.valToPos(ready ?? end ?? this.view.now, "x") - plot.valToPos(start, "x") >= PHASES_FROM;
  }

  mark(plot, labels) {
    const { ctx, bbox } = plot;
    const density = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const [text, ground, failed, quiet] = ["--text", "--raised", "--failed", "--quiet"].map((name) => resolved(plot.root, name));
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.lineWidth = density;
    ctx.font = `${11 * density}px system-ui`;
    const runs = this.view.runs.flatMap((run) =>
      Object.entries(MARKS).map(([name, dashes]) => ({ words: `${run.server} ${WORDS[name]}`, dashes, at: run[name], colour: text })),
    );
    const phases = this.view.runs.filter((run) => this.isWide(plot, run)).flatMap((run) =>
      run.phases.map(({ words, at }) => ({ words: `${run.server}: ${words}`, dashes: [1, 5], at, colour: quiet })),
    );
    const alerts = this.view.alerts.map(({ title, start, severity }) => ({ words: `⚑ ${title}`, dashes: [1, 3], at: start, colour: severity === "info" ? text : failed }));
    const marks = [...runs, ...phases, ...alerts]
      .filter(({ at }) => at !== null && at >= this.view.from && at <= this.view.to)
      .sort((one, other) => one.at - other.at);
    const ends = Array(ROWS).fill(-Infinity); // of the last label in each row
    for (const { words, dashes, at, colour } of marks) {
      const x = Math.round(plot.valToPos(at, "x", true));
      ctx.globalAlpha = 0.55;
      ctx.strokeStyle = colour;
      ctx.setLineDash(dashes.map((length) => length * density));
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (!labels) continue;
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

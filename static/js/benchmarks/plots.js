// @ts-check
// <benchmark-plots>: the points of results as curves, and speed over time. data-charts says which.

import uPlot from "../page/uplot.js";

import { heading, resolved } from "../memory/plot.js";
import { find } from "../page/parts.js";

/**
 * @typedef {{name: string, points: [number, number][]}} Series
 * @typedef {{at: number, words: string}} Mark
 * @typedef {{title: string, x: string, y: string, log: boolean, time: boolean, series: Series[], marks: Mark[]}} Chart
 */

const COLOURS = ["--accent", "--attention", "--ready", "--unhealthy", "--failed", "--quiet"];
const DASHES = [undefined, [4, 3], [1, 3], [8, 3], [8, 3, 1, 3], [2, 2]];
const DAY = 86400; // seconds
const NEAR = 44; // px between two marks that both have their words

class BenchmarkPlots extends HTMLElement {
  static observedAttributes = ["data-charts"];

  /** @type {{plot: uPlot, place: HTMLElement}[]} */
  plots = [];

  // The page is sent anew while it is measured, and leaves alone what stands in here.
  get charts() {
    return find(this, "[hx-morph-skip]", HTMLElement);
  }

  connectedCallback() {
    this.resizing.observe(this);
    document.addEventListener("themechange", this.draw);
    this.draw();
  }

  disconnectedCallback() {
    this.resizing.disconnect();
    document.removeEventListener("themechange", this.draw);
    this.clear();
  }

  /** @param {string} _name @param {string | null} before @param {string | null} now */
  attributeChangedCallback(_name, before, now) {
    if (this.isConnected && before !== null && before !== now) this.draw();
  }

  resizing = new ResizeObserver(() => this.fit());

  clear() {
    for (const { plot } of this.plots) plot.destroy();
    this.plots = [];
    this.charts.replaceChildren();
  }

  draw = () => {
    this.clear();
    /** @type {Chart[]} */
    const charts = JSON.parse(this.dataset.charts ?? "[]");
    for (const chart of charts) this.plots.push(this.chart(chart));
    // The first was as wide as all of them before there was a second one.
    this.fit();
  };

  fit = () => {
    for (const { plot, place } of this.plots) plot.setSize(size(place));
  };

  /** @param {Chart} chart */
  chart({ title, x, y, log, time, series, marks }) {
    const section = document.createElement("section");
    section.className = "panel";
    const name = document.createElement(this.closest("section") ? "h3" : "h2");
    name.textContent = title;
    const chart = document.createElement("div");
    chart.className = "engine-chart";
    const lines = series.map((each, index) => ({ words: each.name || y, colour: COLOURS[index] ?? "--quiet", dash: DASHES[index] }));
    const [head, readouts] = heading("", lines);
    const place = document.createElement("div");
    place.className = "engine-chart-plot";
    chart.append(head, place);
    if (!time) {
      const below = document.createElement("p");
      below.textContent = `${y} against ${x}`;
      chart.append(below);
    }
    section.append(name, chart);
    place.role = "img";
    place.ariaLabel = `${title}. ${series.map((each) => (time ? describeOverTime(each, y) : describe(each, x, y))).join(" ")}`;
    this.charts.append(section);

    const [quiet, line] = [resolved(place, "--quiet"), resolved(place, "--line")];
    const axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const data = uPlot.join(series.map(({ points }) => [points.map(([at]) => at), points.map(([, value]) => value)]));
    const all = data[0] ?? [];
    const ends = [all[0] ?? 0, all.at(-1) ?? 1];
    const plot = new uPlot(
      {
        ...size(place),
        padding: [8, 12, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
        scales: {
          x: time ? { time: true, range: () => around(ends[0] ?? 0, ends[1] ?? 1) } : log ? { time: false, distr: 3, log: 2, range: () => [Math.max(ends[0] ?? 1, 1), ends[1] ?? 2] } : { time: false, range: () => [0, (ends[1] ?? 1) * 1.1] },
          y: { range: (_self, _low, high) => [0, (high || 1) * 1.1] },
        },
        axes: [
          { ...axis, size: 22, gap: 6, space: time ? 72 : 40, ...(log ? { splits: () => [...all] } : {}), values: (_self, splits) => (time ? dates(splits) : splits.map(label)) },
          { ...axis, size: 52, space: 28, values: (_self, splits) => splits.map(short) },
        ],
        series: [
          {},
          ...lines.map(({ colour, dash }) => ({ stroke: resolved(place, colour), width: 1.5, dash, spanGaps: true, points: { show: true, size: 6, fill: resolved(place, colour) } })),
        ],
        hooks: {
          drawAxes: [(self) => mark(self, marks, quiet)],
          setCursor: [
            ({ cursor: { idx }, data }) => {
              for (const [index, { words }] of lines.entries()) {
                const readout = readouts[index];
                const value = idx === null || idx === undefined ? null : data[index + 1]?.[idx];
                if (readout) readout.textContent = value === null || value === undefined ? words : `${words} ${short(value)} ${time ? "on" : "at"} ${(time ? moment : short)(data[0]?.[idx ?? 0] ?? 0)}`;
              }
            },
          ],
        },
      },
      data,
      place,
    );
    return { plot, place };
  }
}

/** @param {HTMLElement} place */
function size(place) {
  return { width: Math.max(120, place.clientWidth), height: Math.max(80, place.clientHeight) };
}

/** @param {Series} series @param {string} x @param {string} y */
function describe({ name, points }, x, y) {
  const told = points.map(([at, value]) => `${short(value)} ${y} at ${short(at)} ${x}`);
  return `${name ? `${name}: ` : ""}${told.join(", ")}.`;
}

/** @param {Series} series @param {string} y */
function describeOverTime({ name, points }, y) {
  const told = points.map(([at, value]) => `${short(value)} ${y} on ${moment(at)}`);
  return `${name ? `${name}: ` : ""}${told.join(", ")}.`;
}

// A line where something changed, with its words unless the one before is too near.
/** @param {uPlot} plot @param {Mark[]} marks @param {string} colour */
function mark({ ctx, bbox, valToPos }, marks, colour) {
  const scale = devicePixelRatio;
  let free = -Infinity;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = scale;
  ctx.setLineDash([3 * scale, 3 * scale]);
  ctx.font = `${11 * scale}px system-ui`;
  ctx.textAlign = "left";
  ctx.textBaseline = "bottom";
  for (const { at, words } of marks) {
    const x = Math.round(valToPos(at, "x", true));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (x < free) continue;
    const width = ctx.measureText(words).width;
    const fits = x + 4 * scale + width <= bbox.left + bbox.width;
    ctx.fillText(words, fits ? x + 4 * scale : x - 4 * scale - width, bbox.top + bbox.height - 4 * scale);
    free = x + Math.max(width + 8 * scale, NEAR * scale);
  }
  ctx.restore();
}

// With room on both sides, so that the first and the newest point are whole.
/** @param {number} first @param {number} last @returns {[number, number]} */
function around(first, last) {
  const room = Math.max((last - first) * 0.05, 60);
  return [first - room, last + room];
}

// Each day once; within two days, times of day.
/** @param {number[]} splits */
function dates(splits) {
  const isShort = (splits.at(-1) ?? 0) - (splits[0] ?? 0) < 2 * DAY;
  const words = splits.map((at) => (isShort ? clock(at) : day(at)));
  return words.map((each, index) => (each === words[index - 1] ? "" : each));
}

/** @param {number} seconds */
function day(seconds) {
  return new Date(1000 * seconds).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

/** @param {number} seconds */
function clock(seconds) {
  return new Date(1000 * seconds).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

/** @param {number} seconds */
function moment(seconds) {
  return new Date(1000 * seconds).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}

/** A label of the axis: null where there is no room for it. @param {number | null} value */
function label(value) {
  return value === null ? "" : short(value);
}

/** @param {number} value */
function short(value) {
  if (value >= 1000 && value % 1000 === 0) return `${value / 1000}k`;
  if (value >= 100) return Math.round(value).toLocaleString();
  return String(Math.round(value * (value < 1 ? 1000 : 10)) / (value < 1 ? 1000 : 10));
}

customElements.define("benchmark-plots", BenchmarkPlots);

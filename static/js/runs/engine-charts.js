// @ts-check
// <engine-charts>: what an engine did in the last 15 minutes. The template holds the figures, and a
// place for each chart by its name ([data-chart]). The socket changes data-point ("time,generation,
// prompt,…" in the order of POINT); every ten seconds one is kept.

import uPlot from "../page/uplot.js";

import { heading, resolved } from "../memory/plot.js";
import { find } from "../page/parts.js";

const SECONDS = 900;
const EVERY = 10; // seconds between two points
const GAP = 25; // seconds without a point break the line
const POINT = ["generation", "prompt", "running", "queued", "first_p50", "first_p95", "token_p50", "token_p95", "kv", "prefix"];
/**
 * @typedef {{key: string, words: string, colour: string, dash?: number[]}} Line
 * @typedef {{name: string, lines: Line[], unit?: string, by?: number, least?: number, range?: number}} Chart
 */

/** @type {Chart[]} */
const CHARTS = [
  {
    name: "generation",
    least: 1,
    unit: " tok/s",
    lines: [{ key: "generation", words: "generated", colour: "--accent" }],
  },
  {
    // On a scale of its own: prompts are read many times as fast as answers are written.
    name: "prompt",
    least: 1,
    unit: " tok/s",
    lines: [{ key: "prompt", words: "read", colour: "--accent" }],
  },
  {
    name: "requests",
    least: 1,
    lines: [
      { key: "running", words: "running", colour: "--accent" },
      { key: "queued", words: "queued", colour: "--attention", dash: [4, 3] },
    ],
  },
  {
    name: "first",
    unit: " s",
    least: 0.1,
    lines: [
      { key: "first_p50", words: "p50", colour: "--accent" },
      { key: "first_p95", words: "p95", colour: "--attention", dash: [4, 3] },
    ],
  },
  {
    name: "token",
    unit: " ms",
    by: 1000,
    least: 1,
    lines: [
      { key: "token_p50", words: "p50", colour: "--accent" },
      { key: "token_p95", words: "p95", colour: "--attention", dash: [4, 3] },
    ],
  },
  {
    name: "caches",
    unit: " %",
    by: 100,
    range: 100,
    lines: [
      { key: "kv", words: "KV cache in use", colour: "--accent" },
      { key: "prefix", words: "prefix cache hits", colour: "--quiet", dash: [4, 3] },
    ],
  },
];

class EngineCharts extends HTMLElement {
  static observedAttributes = ["data-point"];

  /** @type {number[]} */
  times = [];
  /** A list for each name of POINT. @type {Map<string, Past.Values>} */
  values = new Map();
  /** @type {{plot: uPlot, place: HTMLElement, chart: Chart}[]} */
  plots = [];
  loaded = false;
  drawn = "";

  connectedCallback() {
    this.times = [];
    this.values = new Map(POINT.map((name) => [name, []]));
    this.plots = [];
    this.loaded = false;
    this.resizing.observe(this);
    document.addEventListener("themechange", this.recolour);
    this.load();
  }

  resizing = new ResizeObserver(() => this.resize());
  recolour = () => this.draw();

  disconnectedCallback() {
    this.resizing.disconnect();
    document.removeEventListener("themechange", this.recolour);
    this.clear();
  }

  /** @param {string} _name @param {string | null} _old @param {string | null} point */
  attributeChangedCallback(_name, _old, point) {
    if (!this.loaded || !point || !this.push(point)) return;
    if (this.shown() !== this.drawn) this.draw();
    else if (!document.hidden) this.renew();
  }

  async load() {
    try {
      const response = await fetch(this.dataset.url ?? "");
      if (response.ok) this.take(await response.json());
    } catch {
      // The socket's points fill the charts all the same, from now on.
    }
    this.loaded = true;
    if (this.dataset.point) this.push(this.dataset.point);
    if (this.isConnected) this.draw();
  }

  /** @param {{t: number[], columns: Past.Columns}} told */
  take({ t, columns }) {
    t.forEach((at, index) => {
      const values = POINT.map((name) => columns[name]?.[index] ?? null);
      if (values.some((value) => value !== null)) this.add(at, values);
    });
  }

  // Whether there is one more point: they come more often than they are kept.
  /** @param {string} point */
  push(point) {
    const [time, ...values] = point.split(",").map((text) => (text === "" ? null : Number(text)));
    const at = time ?? 0;
    const last = this.times.at(-1);
    if (last !== undefined && at - last < EVERY) return false;
    this.add(at, values);
    while ((this.times[0] ?? at) < at - SECONDS) for (const list of [this.times, ...this.values.values()]) list.shift();
    return true;
  }

  /** @param {number} at @param {Past.Values} values */
  add(at, values) {
    const last = this.times.at(-1);
    if (last !== undefined && at - last > GAP) this.put(last + 1, []);
    this.put(at, values);
  }

  /** @param {number} at @param {Past.Values} values */
  put(at, values) {
    this.times.push(at);
    for (const [index, name] of POINT.entries()) this.values.get(name)?.push(values[index] ?? null);
  }

  /** @param {Line} line @param {number} [by] */
  column({ key }, by = 1) {
    const values = this.values.get(key) ?? [];
    return by === 1 ? values : values.map((value) => (value === null ? null : value * by));
  }

  charts() {
    /** @param {Line} line */
    const isTold = (line) => this.column(line).some((value) => value !== null);
    return CHARTS.map((chart) => ({ ...chart, lines: chart.lines.filter(isTold) })).filter((chart) => chart.lines.length);
  }

  // Which lines there are, as text.
  shown() {
    return this.charts().flatMap(({ lines }) => lines.map(({ key }) => key)).join();
  }

  /** @param {Chart} chart @returns {uPlot.AlignedData} */
  data({ lines, by }) {
    return [this.times, ...lines.map((line) => this.column(line, by))];
  }

  /** @param {Chart} chart */
  place({ name }) {
    return find(this, `[data-chart=${name}]`, HTMLElement);
  }

  clear() {
    for (const { plot } of this.plots) plot.destroy();
    this.plots = [];
    for (const chart of CHARTS) this.place(chart).replaceChildren();
  }

  draw() {
    this.clear();
    this.drawn = this.shown();
    const charts = this.charts();
    for (const chart of CHARTS) this.place(chart).hidden = !charts.some(({ name }) => name === chart.name);
    for (const chart of charts) this.plots.push(this.chart(chart));
    this.describe();
  }

  renew() {
    for (const { plot, chart } of this.plots) plot.setData(this.data(chart));
    this.describe();
  }

  resize() {
    for (const { plot, place } of this.plots) plot.setSize(size(place));
  }

  /** @param {Chart} chart */
  chart(chart) {
    const { lines, unit = "", least = 1, range } = chart;
    const [head, readouts] = heading("", lines);
    const place = document.createElement("div");
    place.className = "engine-chart-plot";
    this.place(chart).append(head, place);
    const [quiet, line] = [resolved(place, "--quiet"), resolved(place, "--line")];
    const axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const plot = new uPlot(
      {
        ...size(place),
        padding: [8, 4, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 5 }, sync: { key: "engine-charts" } },
        scales: { x: { time: true, range: () => this.window() }, y: { range: (_self, _low, high) => [0, range ?? Math.max(high ?? 0, least) * 1.1] } },
        axes: [
          { ...axis, size: 22, gap: 6, space: 80, values: (_self, splits) => splits.map(clock) },
          { ...axis, size: 52, space: 22, values: (_self, splits) => splits.map((value) => `${short(value)}${unit.length > 3 ? "" : unit}`) },
        ],
        series: [{}, ...lines.map(({ colour, dash }) => ({ stroke: resolved(place, colour), width: 1.5, dash, points: { show: false } }))],
        hooks: {
          setCursor: [
            ({ cursor: { idx }, data }) => {
              for (const [index, { words }] of lines.entries()) {
                const value = idx === null || idx === undefined ? null : (data[index + 1]?.[idx] ?? null);
                const readout = readouts[index];
                if (readout) readout.textContent = value === null ? words : `${words} ${short(value)}${unit}`;
              }
            },
          ],
        },
      },
      this.data(chart),
      place,
    );
    return { plot, place, chart };
  }

  /** @returns {Past.Range} */
  window() {
    const end = this.times.at(-1) ?? Date.now() / 1000;
    return [end - SECONDS, end];
  }

  // In words, for who does not see it.
  describe() {
    for (const chart of this.charts()) {
      const told = chart.lines.map((line) => {
        const values = this.column(line, chart.by).filter((value) => value !== null);
        const unit = chart.unit ?? "";
        return `${line.words} ${short(values.at(-1) ?? 0)}${unit}, at most ${short(Math.max(...values))}${unit}`;
      });
      const place = this.place(chart);
      place.role = "img";
      place.ariaLabel = `Last 15 minutes: ${told.join("; ")}`;
    }
  }
}

/** @param {HTMLElement} place */
function size(place) {
  return { width: Math.max(120, place.clientWidth), height: Math.max(40, place.clientHeight) };
}

/** @param {number} at unix seconds */
function clock(at) {
  return new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

/** @param {number} value */
function short(value) {
  if (value >= 100) return Math.round(value).toLocaleString();
  return String(Math.round(value * (value < 1 ? 1000 : 10)) / (value < 1 ? 1000 : 10));
}

customElements.define("engine-charts", EngineCharts);

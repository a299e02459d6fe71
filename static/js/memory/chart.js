// @ts-check
// <gpu-chart>: the last 15 minutes of one GPU. The socket changes its data-point
// ("time,util,bytes"), and the newest point is appended.

import uPlot from "../page/uplot.js";

import { resolved } from "./plot.js";
import { history } from "./points.js";

const SECONDS = 900;
const GIB = 2 ** 30;
const GAP = 5; // seconds without a point break the line

class GpuChart extends HTMLElement {
  static observedAttributes = ["data-point"];

  /** @type {number[]} */
  times = [];
  /** @type {Past.Values} */
  percents = [];
  /** @type {Past.Values} */
  gibs = [];
  /** @type {string[]} */
  waiting = [];
  loaded = false;
  readout = document.createElement("p");
  /** @type {uPlot | null} */
  plot = null;

  constructor() {
    super();
    // Not attributes: the socket's next panel would take them away again.
    this.internals = this.attachInternals();
    this.internals.role = "img";
  }

  connectedCallback() {
    this.take([], [], []);
    this.waiting = [];
    this.loaded = false;
    this.readout.className = "chart-readout";
    this.resizing.observe(this);
    document.addEventListener("themechange", this.recolour);
    this.load();
  }

  // Also when the row that it is in unfolds: until then nothing is drawn.
  resizing = new ResizeObserver(() => {
    this.plot?.setSize(this.size());
    this.plot?.setData(this.ordered());
  });
  recolour = () => this.draw();

  disconnectedCallback() {
    this.resizing.disconnect();
    document.removeEventListener("themechange", this.recolour);
    this.plot?.destroy();
    this.plot = null;
  }

  /** @param {string} _name @param {string | null} before @param {string | null} now */
  attributeChangedCallback(_name, before, now) {
    if (!now || now === before) return;
    if (this.loaded) this.append(now);
    else this.waiting.push(now);
  }

  async load() {
    /** @type {import("./points.js").Told} */
    let found;
    try {
      found = await history(this.dataset.url ?? "");
    } catch {
      found = { t: [], gpus: {} }; // offline: the strip at the top says so
    }
    const mine = found.gpus[this.dataset.gpu ?? ""];
    if (mine) this.take([...found.t], [...mine.util], mine.used.map((used) => (used === null ? null : used / GIB)));
    this.loaded = true;
    for (const point of [...this.waiting, this.dataset.point]) if (point) this.push(point);
    this.draw();
  }

  /** @param {string} point */
  push(point) {
    const [at, util = null, used = null] = point.split(",").map((text) => (text === "" ? null : Number(text)));
    const t = at ?? 0;
    const last = this.times.at(-1);
    if (last !== undefined && t <= last) return;
    if (last !== undefined && t - last > GAP) this.add(last + 1, null, null);
    this.add(t, util, used === null ? null : used / GIB);
    while ((this.times[0] ?? t) < t - SECONDS) for (const list of [this.times, this.percents, this.gibs]) list.shift();
  }

  /** @param {number[]} times @param {Past.Values} percents @param {Past.Values} gibs */
  take(times, percents, gibs) {
    this.times = times;
    this.percents = percents;
    this.gibs = gibs;
  }

  /** @param {number} at @param {number | null} percent @param {number | null} gib */
  add(at, percent, gib) {
    this.times.push(at);
    this.percents.push(percent);
    this.gibs.push(gib);
  }

  /** @param {string} point */
  append(point) {
    this.push(point);
    if (!document.hidden && this.checkVisibility()) this.plot?.setData(this.ordered());
    this.describe();
  }

  size() {
    return { width: Math.max(40, this.clientWidth), height: Math.max(40, this.clientHeight) };
  }

  draw() {
    this.plot?.destroy();
    this.replaceChildren(this.readout);
    const tall = this.classList.contains("is-tall");
    /** @param {string} name */
    const colour = (name) => resolved(this.readout, name);
    const [util, memory, quiet, line] = [colour("--util"), colour("--memory"), colour("--quiet"), colour("--line")];
    const total = Number(this.dataset.total) / GIB || 1;
    /** @param {uPlot.Axis} options @returns {uPlot.Axis} */
    const axis = (options) => ({ show: tall, stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "12px system-ui", ...options });
    this.plot = new uPlot(
      {
        ...this.size(),
        padding: tall ? [8, 0, 0, 0] : [4, 0, 2, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 5 } },
        scales: {
          x: { time: true, range: () => this.window() },
          percent: { range: [0, 100] },
          gib: { range: [0, total] },
        },
        axes: [
          axis({ space: 60, size: 24, values: (_plot, splits) => splits.map((at) => clock(at).slice(0, 5)) }),
          axis({ scale: "percent", size: 44, values: (_plot, splits) => splits.map((value) => `${value} %`) }),
          axis({ scale: "gib", side: 1, size: 56, grid: { show: false }, values: (_plot, splits) => splits.map((value) => `${value} GiB`) }),
        ],
        series: [
          {},
          { scale: "gib", stroke: memory, width: 1, fill: memory.replace(/^rgb\((.*)\)$/, "rgb($1 / 0.16)").replaceAll(",", ""), points: { show: false } },
          { scale: "percent", stroke: util, width: 1.5, points: { show: false } },
        ],
        hooks: { setCursor: [(plot) => this.read(plot.cursor.idx)] },
      },
      this.ordered(),
      this,
    );
    this.describe();
  }

  // Memory below, utilisation drawn over it.
  /** @returns {uPlot.AlignedData} */
  ordered() {
    return [this.times, this.gibs, this.percents];
  }

  /** @returns {Past.Range} */
  window() {
    const end = this.times.at(-1) ?? Date.now() / 1000;
    return [end - SECONDS, end];
  }

  /** @param {number | null | undefined} index */
  read(index) {
    const at = index ?? -1;
    const time = this.times[at];
    this.readout.textContent = time === undefined ? "" : `${clock(time)} · ${figure(this.percents[at], "%")} · ${figure(this.gibs[at], "GiB")}`;
  }

  describe() {
    const utils = this.percents.filter((value) => value !== null);
    const most = utils.length ? Math.max(...utils) : null;
    this.internals.ariaLabel = `Last 15 minutes: utilisation now ${figure(this.percents.at(-1), "%")}, at most ${figure(most, "%")}; memory now ${figure(this.gibs.at(-1), "GiB")}`;
  }
}

/** @param {number} seconds */
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
/** @param {number | null | undefined} value @param {"%" | "GiB"} unit */
const figure = (value, unit) => (value === null || value === undefined ? "not reported" : `${unit === "GiB" ? value.toFixed(1) : Math.round(value)} ${unit}`);

customElements.define("gpu-chart", GpuChart);

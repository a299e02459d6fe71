// <gpu-chart>: the last 15 minutes of one GPU. The socket changes its data-point
// ("time,util,bytes"), and the newest point is appended.

import uPlot from "/static/vendor/uplot/uPlot.esm.js";

import { resolved } from "./plot.js";

const SECONDS = 900;
const GIB = 2 ** 30;
const GAP = 5; // seconds without a point break the line

const loading = new Map(); // address → promise: the charts of a box share one answer

function history(url) {
  if (!loading.has(url)) {
    const answer = fetch(url).then((response) => (response.ok ? response.json() : { t: [], gpus: {} }));
    loading.set(url, answer);
    answer.finally(() => setTimeout(() => loading.delete(url), 5000)).catch(() => {});
  }
  return loading.get(url);
}

class GpuChart extends HTMLElement {
  static observedAttributes = ["data-point"];

  constructor() {
    super();
    // Not attributes: the socket's next panel would take them away again.
    this.internals = this.attachInternals();
    this.internals.role = "img";
  }

  connectedCallback() {
    this.points = [[], [], []]; // seconds, percent, GiB
    this.waiting = [];
    this.loaded = false;
    this.readout = document.createElement("p");
    this.readout.className = "chart-readout";
    this.resizing = new ResizeObserver(() => this.plot?.setSize(this.size()));
    this.resizing.observe(this);
    this.recolour = () => this.draw();
    document.addEventListener("themechange", this.recolour);
    this.load();
  }

  disconnectedCallback() {
    this.resizing.disconnect();
    document.removeEventListener("themechange", this.recolour);
    this.plot?.destroy();
    this.plot = null;
  }

  attributeChangedCallback(_name, before, now) {
    if (!now || now === before || !this.points) return;
    if (this.loaded) this.append(now);
    else this.waiting.push(now);
  }

  async load() {
    let found;
    try {
      found = await history(this.dataset.url);
    } catch {
      found = { t: [], gpus: {} }; // offline: the strip at the top says so
    }
    const mine = found.gpus[this.dataset.gpu];
    if (mine) this.points = [found.t, mine.util, mine.used.map((used) => (used === null ? null : used / GIB))].map((list) => [...list]);
    this.loaded = true;
    for (const point of [...this.waiting, this.dataset.point]) if (point) this.push(point);
    this.draw();
  }

  push(point) {
    const [t, util, used] = point.split(",").map((text) => (text === "" ? null : Number(text)));
    const last = this.points[0].at(-1);
    if (last !== undefined && t <= last) return;
    if (last !== undefined && t - last > GAP) this.add(last + 1, null, null);
    this.add(t, util, used === null ? null : used / GIB);
    while (this.points[0][0] < t - SECONDS) for (const list of this.points) list.shift();
  }

  add(...values) {
    values.forEach((value, index) => this.points[index].push(value));
  }

  append(point) {
    this.push(point);
    if (!document.hidden) this.plot?.setData(this.points);
    this.describe();
  }

  size() {
    return { width: Math.max(40, this.clientWidth), height: Math.max(40, this.clientHeight) };
  }

  draw() {
    this.plot?.destroy();
    this.replaceChildren(this.readout);
    const tall = this.classList.contains("is-tall");
    const [util, memory, quiet, line] = ["--util", "--memory", "--quiet", "--line"].map((name) => resolved(this.readout, name));
    const total = Number(this.dataset.total) / GIB || 1;
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
    const setData = this.plot.setData.bind(this.plot);
    this.plot.setData = () => setData(this.ordered());
    this.describe();
  }

  // Memory below, utilisation drawn over it.
  ordered() {
    return [this.points[0], this.points[2], this.points[1]];
  }

  window() {
    const end = this.points[0].at(-1) ?? Date.now() / 1000;
    return [end - SECONDS, end];
  }

  read(index) {
    const [times, utils, gibs] = this.points;
    const at = index ?? -1;
    this.readout.textContent = at < 0 || times[at] === undefined ? "" : `${clock(times[at])} · ${figure(utils[at], "%")} · ${figure(gibs[at], "GiB")}`;
  }

  describe() {
    const utils = this.points[1].filter((value) => value !== null);
    const most = utils.length ? Math.max(...utils) : null;
    this.internals.ariaLabel = `Last 15 minutes: utilisation now ${figure(this.points[1].at(-1), "%")}, at most ${figure(most, "%")}; memory now ${figure(this.points[2].at(-1), "GiB")}`;
  }
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const figure = (value, unit) => (value === null || value === undefined ? "not reported" : `${unit === "GiB" ? value.toFixed(1) : Math.round(value)} ${unit}`);

customElements.define("gpu-chart", GpuChart);

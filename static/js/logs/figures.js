// @ts-check
// What an engine writes of its own work, over time, beneath the log: tokens a second, requests,
// the KV cache. A click goes to that place of the log. uPlot is fetched when there is something.

import { fetchStyle } from "../page/fetch-part.js";
import { find } from "../page/parts.js";
import { remember, remembered } from "./choices.js";
import { heading, resolved } from "../memory/plot.js";

/** @import uPlot from "../../vendor/uplot/uPlot.esm.js" */

/**
 * @typedef {{key: Log.FigureName, words: string, colour: string, dash?: number[]}} Line
 * @typedef {{name: string, unit?: string, lines: Line[]}} Chart
 * @typedef {{plot: uPlot, lines: Line[], isLast: boolean}} Plotted
 */

/** @type {Chart[]} */
const CHARTS = [
  {
    name: "tokens/s",
    lines: [
      { key: "generation", words: "generated", colour: "--accent" },
      { key: "prompt", words: "prompt", colour: "--quiet", dash: [4, 3] },
    ],
  },
  {
    name: "requests",
    lines: [
      { key: "running", words: "running", colour: "--accent" },
      { key: "queued", words: "waiting", colour: "--attention", dash: [4, 3] },
    ],
  },
  { name: "KV cache", unit: " %", lines: [{ key: "kv", words: "in use", colour: "--accent" }] },
];
const HEIGHT = 84; // px of a chart
const AXIS = 24; // px more for the times, which stand once
const SIDE = 52;
const DAY = 86_400;

export class LogFigures {
  /** @type {typeof uPlot | undefined} */
  uPlot;
  /** @type {Log.Figures | null} */
  figures = null;
  /** @type {Plotted[]} */
  plots = [];

  /** @param {HTMLDetailsElement} panel @param {{show(number: number): void}} on */
  constructor(panel, on) {
    this.panel = panel;
    this.on = on;
    this.body = find(panel, ".log-charts", HTMLElement);
    this.summary = find(panel, ".log-figures-now", HTMLElement);
    this.resizing = new ResizeObserver(() => this.#resize());
    this.resizing.observe(this.body);
    this.recolour = () => panel.open && this.#rebuild();
    panel.addEventListener("toggle", () => {
      remember("figures", panel.open);
      this.#draw();
    });
    panel.open = remembered("figures") === "yes";
    document.addEventListener("themechange", this.recolour);
  }

  close() {
    this.resizing.disconnect();
    document.removeEventListener("themechange", this.recolour);
    this.forget();
  }

  forget() {
    this.figures = null;
    this.panel.hidden = true;
    this.#clear();
  }

  /** @param {Log.Figures} figures */
  async tell(figures) {
    if (!figures.t) return this.forget();
    const keys = this.figures && Object.keys(this.figures).join();
    this.figures = figures;
    this.panel.hidden = false;
    find(this.panel, ".log-figures-tokens", HTMLElement).textContent = `tokens of ${figures.tokens}`;
    this.summary.textContent = summary(figures);
    if (keys === Object.keys(figures).join() && this.plots.length) {
      for (const { plot, lines } of this.plots) plot.setData(columns(figures, lines));
    } else await this.#draw();
  }

  async #draw() {
    if (!this.panel.open || !this.figures) return this.#clear();
    await fetchStyle("memory/plots.css");
    this.uPlot ??= (await import("../page/uplot.js")).default;
    this.#rebuild();
  }

  #clear() {
    for (const { plot } of this.plots) plot.destroy();
    this.plots = [];
    this.body.replaceChildren();
  }

  #rebuild() {
    const { figures, uPlot: Plot } = this;
    if (!figures || !Plot) return;
    this.#clear();
    const shown = CHARTS.map((chart) => ({
      ...chart,
      lines: chart.lines.filter(({ key }) => figures[key]?.some((value) => value !== null)),
    })).filter(({ lines }) => lines.length);
    for (const [index, chart] of shown.entries()) this.#add(chart, index === shown.length - 1, figures, Plot);
  }

  /** @param {Chart} chart @param {boolean} isLast @param {Log.Figures} figures @param {typeof uPlot} Plot */
  #add({ name, unit = "", lines }, isLast, figures, Plot) {
    const figure = document.createElement("div");
    figure.className = "log-chart";
    const [head, readouts] = heading(name, lines);
    head.className = "log-chart-name";
    figure.append(head);
    this.body.append(figure);
    /** @param {string} value */
    const colour = (value) => resolved(this.summary, value);
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    const size = this.#size(isLast);
    const plot = new Plot(
      {
        ...size,
        padding: [6, 8, isLast ? 0 : 6, 0],
        legend: { show: false },
        cursor: {
          y: false,
          drag: { x: false, y: false },
          sync: { key: "log-figures" },
          points: { size: 5 },
        },
        scales: { x: { time: true }, y: { range: (_self, _low, high) => [0, unit ? 100 : Math.max(high ?? 0, 1) * 1.05] } },
        axes: [
          { ...axis, show: isLast, size: AXIS, space: 70, values: (_self, splits, _at, _space, step) => splits.map((at) => time(at, step)) },
          { ...axis, size: SIDE, space: 24, values: (_self, splits) => splits.map((value) => `${short(value)}${unit}`) },
        ],
        series: [
          {},
          ...lines.map(({ colour: which, dash }) => ({ stroke: colour(which), width: 1.5, dash, points: { size: 4 } })),
        ],
        hooks: {
          setCursor: [
            ({ cursor: { idx } }) => {
              for (const [at, { key, words }] of lines.entries()) {
                const value = idx === null || idx === undefined ? null : (this.figures?.[key]?.[idx] ?? null);
                const readout = readouts[at];
                if (readout) readout.textContent = value === null ? words : `${words} ${short(value)}${unit}`;
              }
            },
          ],
        },
      },
      columns(figures, lines),
      figure,
    );
    plot.over.addEventListener("click", ({ clientX }) => {
      this.#go(plot.posToIdx(clientX - plot.over.getBoundingClientRect().left));
    });
    this.plots.push({ plot, lines, isLast });
  }

  /** @param {number} index */
  #go(index) {
    const number = this.figures?.line?.[index];
    if (number) this.on.show(number);
  }

  /** @param {boolean} isLast */
  #size(isLast) {
    return { width: Math.max(this.body.clientWidth, 200), height: HEIGHT + (isLast ? AXIS : 0) };
  }

  #resize() {
    for (const { plot, isLast } of this.plots) plot.setSize(this.#size(isLast));
  }
}

/** @param {Log.Figures} figures @param {Line[]} lines @returns {uPlot.AlignedData} */
function columns(figures, lines) {
  return [figures.t ?? [], ...lines.map(({ key }) => figures[key] ?? [])];
}

/** @param {Log.Figures} figures */
function summary(figures) {
  const told = CHARTS.flatMap(({ name, unit = ` ${name}`, lines }) =>
    lines.flatMap(({ key, words }) => {
      const values = (figures[key] ?? []).filter((value) => value !== null);
      const last = values.at(-1);
      if (last === undefined) return [];
      const most = Math.max(...values);
      const what = unit === " %" ? `KV cache ${words}` : words;
      return [`${what} ${short(last)}${unit}, at most ${short(most)}`];
    }),
  );
  const [from, to] = [figures.t?.at(0) ?? 0, figures.t?.at(-1) ?? 0].map((at) => new Date(at * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }).replace(",", ""));
  return `Latest: ${told.join("; ")}. From ${from} to ${to}.`;
}

/** @param {number} value */
function short(value) {
  return value >= 100 ? Math.round(value).toLocaleString() : String(Math.round(value * 10) / 10);
}

/** @param {number} at @param {number} step */
function time(at, step) {
  const when = new Date(at * 1000);
  if (step >= DAY) return when.toLocaleDateString("en-GB", { month: "short", day: "numeric" });
  return when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(step < 60 && { second: "2-digit" }) });
}

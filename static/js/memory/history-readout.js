// @ts-check
// The readout of a history: what all charts say of one moment, and chips that hide what they name.

import { all } from "../page/parts.js";
import { clock, stamp, tone } from "./history-places.js";

/** @param {number} value */
const gib = (value) => (value >= 99.95 ? value.toFixed(0) : value.toFixed(1));

/** @param {number} value */
function short(value) {
  if (value >= 100) return Math.round(value).toLocaleString("en-GB");
  return String(Number(value.toPrecision(2)));
}

/**
 * The index of a moment in points of even width; the newest that says something where none is meant.
 * @param {number[]} times @param {Past.Values} values @param {number | null} at
 */
function place(times, values, at) {
  const [first = 0, second = first + 1] = times;
  if (at === null) return values.findLastIndex((value) => value !== null);
  return Math.min(times.length - 1, Math.max(0, Math.floor((at - first) / (second - first))));
}

/** @type {[column: string, title: string, by: number, unit: string][]} */
const FIGURES = [
  ["util", "Utilisation", 1, "%"],
  ["power", "Power", 10, "W"],
  ["temperature", "Temperature", 1, "°C"],
];

/**
 * A chip of each layer of memory, and of each server that only engines tell of.
 * @param {Past.View} view @returns {{key: string, name: string, className: string, layer: Past.Layer | null}[]}
 */
function chips({ stack, engines }) {
  const layers = stack.map((layer) => ({
    key: layer.key,
    name: layer.name,
    className: `part-${layer.kind}${layer.tone ? ` tone-${layer.tone}` : ""}${layer.kind === "unattributed" || layer.kind === "driver_pool" ? " is-loud" : ""}`,
    layer,
  }));
  const known = new Set(layers.map(({ key }) => key));
  const others = Object.keys(engines.servers).filter((slug) => !known.has(`=server:${slug}`));
  return [
    ...layers,
    ...others.map((slug) => ({ key: `=server:${slug}`, name: slug, className: `part-server tone-${tone(`=server:${slug}`)}`, layer: null })),
  ];
}

export class Readout {
  /**
   * @param {{when: HTMLElement, figures: HTMLElement, legend: HTMLElement}} places
   * @param {(key: string) => void} toggle
   */
  constructor(places, toggle) {
    this.places = places;
    this.toggle = toggle;
    /** @type {{item: HTMLElement, layer: Past.Layer | null}[]} */
    this.items = [];
    /** @type {{cell: HTMLElement, unit: string, times: number[], values: Past.Values}[]} */
    this.cells = [];
  }

  /**
   * @param {Past.View} view @param {ReadonlySet<string>} hidden @param {Past.Reading[]} readings of engines
   */
  draw(view, hidden, readings) {
    this.view = view;
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.key : undefined;
    this.items = chips(view).map(({ key, name, className, layer }) => {
      const item = document.createElement("li");
      const chip = Object.assign(document.createElement("button"), { type: "button", className: `part-chip ${className}` });
      chip.dataset.key = key;
      chip.title = "Hide or show it in the charts";
      chip.ariaPressed = String(!hidden.has(key));
      const value = document.createElement("strong");
      chip.append(Object.assign(document.createElement("span"), { textContent: name }), value);
      chip.addEventListener("click", () => this.toggle(key));
      item.append(chip);
      return { item, layer };
    });
    this.places.legend.replaceChildren(...this.items.map(({ item }) => item));
    if (focused) all(this.places.legend, "button", HTMLElement).find(({ dataset }) => dataset.key === focused)?.focus();
    const figures = FIGURES.filter(([column]) => view.columns[column]).map(([column, title, by, unit]) => ({
      title,
      unit,
      times: view.t,
      lines: [{ words: "", tone: 0, values: (view.columns[column] ?? []).map((value) => (value === null ? null : value / by)) }],
    }));
    this.cells = [];
    this.places.figures.replaceChildren(
      ...[...figures, ...readings].map(({ title, unit, times, lines: mine }) => {
        const group = document.createElement("div");
        const name = Object.assign(document.createElement("dt"), { textContent: title });
        const value = document.createElement("dd");
        for (const { words, tone: shade, values } of mine) {
          const cell = document.createElement("span");
          if (shade) cell.className = `part-server tone-${shade}`;
          if (shade) cell.title = words;
          else if (words) value.append(Object.assign(document.createElement("span"), { className: "quiet", textContent: words }));
          value.append(cell);
          this.cells.push({ cell, unit, times, values });
        }
        group.append(name, value);
        return group;
      }),
    );
    this.point(null);
  }

  /** @param {number | null} at */
  point(at) {
    const { view } = this;
    if (!view) return;
    this.places.when.textContent = at === null ? "Latest" : view.to - view.from > 86_400 ? stamp(at, false) : clock(at);
    for (const { item, layer } of this.items) {
      const value = layer?.values[place(view.t, layer.values, at)] ?? null;
      const figure = item.querySelector("strong");
      // What had none then stands back.
      item.classList.toggle("is-none", layer !== null && !value);
      if (figure) figure.textContent = layer ? (value === null ? "–" : gib(value)) : "";
    }
    for (const { cell, unit, times, values } of this.cells) {
      const value = values[place(times, values, at)] ?? null;
      cell.textContent = value === null ? "–" : `${short(value)}${unit && ` ${unit}`}`;
    }
  }
}

// @ts-check
// <box-history>: charts over any range that is kept. The range stands in the address.

import { Charts } from "./history-charts.js";
import { Lane } from "./history-marks.js";
import { clock, day, layers, opening, seconds, stamp, written } from "./history-places.js";
import { Readout } from "./history-readout.js";
import { all, around, find } from "../page/parts.js";
import { sectionOf } from "./plot.js";

const LEAST = 30; // seconds: a narrower range shows nothing
const MOST = 400 * 86400;
const RENEW = 10_000; // ms, or as long as a point stands for
const HOUR = 3600;
const DAY = 86400;

/** @param {number | null} at */
const orDash = (at) => (at === null ? "–" : stamp(at));
/** @param {string} words */
function made(words) {
  return Object.assign(document.createElement("button"), { type: "button", textContent: words });
}

/** @param {unknown} error */
const wordsOf = (error) => (error instanceof Error ? error.message : String(error));
/** @param {string} href @param {string} textContent */
const link = (href, textContent) => Object.assign(document.createElement("a"), { href, textContent });

class BoxHistory extends HTMLElement {
  /** @type {Charts | null} */
  charts = null;
  /** @type {Lane | null} */
  lane = null;
  /** @type {Readout | null} */
  readout = null;
  /** Keys of layers and servers that are not drawn. @type {Set<string>} */
  hiddenKeys = new Set();
  /** What was shown before somebody zoomed in. @type {{span: number, end: number | null} | null} */
  unzoomed = null;
  /** @type {Past.View | null} */
  view = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;
  /** @type {AbortController | null} */
  asking = null;
  gpu = "";
  server = "";
  span = 86400;
  /** null: it ends now, and moves on. @type {number | null} */
  end = null;
  chosen = false;

  connectedCallback() {
    const places = all(this, "[data-chart]", HTMLElement);
    this.charts = new Charts(
      Object.fromEntries(places.map((place) => [place.dataset.chart, place])),
      { chosen: (range) => this.choose(range), pointed: (at) => this.point(at) },
    );
    this.lane = new Lane(find(this, "[data-lane]", HTMLElement));
    this.readout = new Readout(
      { when: find(this, "[data-when]", HTMLElement), figures: find(this, "[data-figures]", HTMLElement), legend: find(this, "[data-legend]", HTMLElement) },
      (key) => this.toggle(key),
    );
    this.readAddress();
    this.addEventListener("click", (event) => this.press(around(event, "button", HTMLElement)));
    this.addEventListener("keydown", (event) => this.key(event));
    this.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    for (const name of /** @type {const} */ (["gpu", "server"])) {
      const choice = this.choice(name);
      choice?.addEventListener("change", () => this.go({ [name]: choice.value }));
    }
    const at = find(this, "[name=at]", HTMLInputElement);
    at.addEventListener("change", () => this.goTo(at.value));
    document.addEventListener("themechange", this.redraw);
    this.load();
  }

  redraw = () => this.view && this.draw(this.view);

  // There is none where there is nothing to choose from.
  /** @param {"gpu" | "server"} name @returns {HTMLSelectElement | null} */
  choice(name) {
    return this.querySelector(`select[name=${name}]`);
  }

  disconnectedCallback() {
    clearTimeout(this.timer);
    this.asking?.abort();
    document.removeEventListener("themechange", this.redraw);
    this.charts?.end();
    this.lane?.end();
  }

  // --- the range ---

  readAddress() {
    const asked = new URLSearchParams(location.search);
    const [from, to] = [Number(asked.get("from")), Number(asked.get("to"))];
    this.gpu = asked.get("gpu") ?? "";
    this.server = asked.get("server") ?? "";
    const { oldest = "", newest = "" } = this.dataset;
    ({ span: this.span, end: this.end } = opening(Number(oldest), Number(newest), Date.now() / 1000));
    const span = seconds(asked.get("span") ?? "");
    if (span > 0) [this.span, this.end] = [span, null];
    if (from > 0 && to > from) {
      this.unzoomed = { span: this.span, end: this.end };
      [this.span, this.end] = [to - from, to];
    }
    this.showReset();
    for (const name of /** @type {const} */ (["gpu", "server"])) {
      const choice = this.choice(name);
      if (choice) choice.value = this[name];
    }
  }

  /** @returns {Past.Range} */
  range() {
    const end = this.end ?? Date.now() / 1000;
    return [Math.floor(end - this.span), Math.ceil(end)];
  }

  /** @param {{span?: number, end?: number | null, gpu?: string, server?: string}} how */
  go({ span = this.span, end = this.end, gpu = this.gpu, server = this.server }) {
    const now = Date.now() / 1000;
    this.span = Math.min(MOST, Math.max(LEAST, span));
    this.end = end === null || end >= now ? null : end;
    this.gpu = gpu;
    this.server = server;
    const [from, to] = this.range();
    const said = new URLSearchParams(this.end === null ? { span: written(this.span) } : { from: `${from}`, to: `${to}` });
    if (gpu) said.set("gpu", gpu);
    if (server) said.set("server", server);
    window.history.replaceState(window.history.state, "", `?${said}`);
    this.showReset();
    this.load();
  }

  /** Into a part of what is shown: there is a way back to what was shown first. @param {{span: number, end: number | null}} range */
  enter(range) {
    this.unzoomed ??= { span: this.span, end: this.end };
    this.go(range);
  }

  /** A range that is chosen, not zoomed into. @param {{span?: number, end?: number | null}} range */
  leave(range) {
    this.unzoomed = null;
    this.go(range);
  }

  reset() {
    if (this.unzoomed) this.leave(this.unzoomed);
  }

  showReset() {
    find(this, "[data-reset]", HTMLButtonElement).disabled = !this.unzoomed;
  }

  /** @param {Past.Range | null} range */
  choose(range) {
    if (range === null) return this.unzoomed ? this.reset() : this.zoom(4);
    // Each chart tells of a range that was drawn in one of them.
    if (this.chosen) return;
    this.chosen = true;
    queueMicrotask(() => (this.chosen = false));
    this.enter({ span: range[1] - range[0], end: range[1] });
  }

  /** @param {number} factor @param {number} [at] */
  zoom(factor, at = 0.5) {
    const [from, to] = this.range();
    const middle = from + (to - from) * at;
    const span = Math.min(MOST, Math.max(LEAST, this.span * factor));
    // What ends now and grows goes on ending now.
    const end = this.end === null && factor > 1 ? null : middle + span * (1 - at);
    if (span >= (this.unzoomed ?? this).span) this.leave({ span, end });
    else this.enter({ span, end });
  }

  /** @param {number} share */
  move(share) {
    const [, to] = this.range();
    this.go({ end: to + this.span * share });
  }

  /** @param {string} text */
  goTo(text) {
    const at = Date.parse(text) / 1000;
    if (Number.isFinite(at)) this.enter({ span: Math.min(this.span, HOUR), end: at + Math.min(this.span, HOUR) / 2 });
  }

  // --- what people do ---

  /** @param {HTMLElement | null} button */
  press(button) {
    if (!button) return;
    const { span, move, zoom, from, to } = button.dataset;
    if (span) this.leave({ span: Number(span), end: null });
    else if (move) this.move(Number(move));
    else if (zoom) this.zoom(Number(zoom));
    else if (from) this.enter({ span: Number(to) - Number(from), end: Number(to) });
    else if ("now" in button.dataset) this.go({ end: null });
    else if ("reset" in button.dataset) this.reset();
    else if ("again" in button.dataset) this.load();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "Escape" && this.unzoomed && !this.isOpen()) return this.reset();
    if (!around(event, "[data-chart]", HTMLElement) || event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => this.move(-0.25),
      ArrowRight: () => this.move(0.25),
      "+": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      Home: () => this.view?.first && this.go({ end: this.view.first + this.span }),
      End: () => this.go({ end: null }),
    };
    const done = keys[event.key];
    if (!done) return;
    event.preventDefault();
    done();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    const place = around(event, "[data-chart]", HTMLElement);
    if (!place || this.getAttribute("aria-busy") === "true") return;
    if (event.ctrlKey) {
      event.preventDefault();
      const box = place.getBoundingClientRect();
      this.zoom(event.deltaY > 0 ? 1.5 : 1 / 1.5, Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.move(Math.sign(event.deltaX) * 0.1);
    }
  }

  // --- what is shown ---

  async load() {
    clearTimeout(this.timer);
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    const [from, to] = this.range();
    const asked = new URLSearchParams({ from: `${from}`, to: `${to}`, gpu: this.gpu, server: this.server });
    for (const download of all(this, "[data-download]", HTMLAnchorElement)) download.href = `${this.dataset.csv}?${asked}${download.dataset.download && `&of=${download.dataset.download}`}`;
    for (const button of all(this, "[data-span]", HTMLElement)) {
      const isChosen = this.end === null && Number(button.dataset.span) === Math.round(this.span);
      button.setAttribute("aria-pressed", String(isChosen));
    }
    this.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(`${this.dataset.url}?${asked}`, { signal: asking.signal });
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      this.take(await response.json());
      this.fail("");
    } catch (error) {
      if (asking.signal.aborted) return;
      this.fail(`This part of the history could not be loaded (${wordsOf(error)}). What is shown is older. `);
    }
    find(this, "[data-loading]", HTMLElement).hidden = true;
    this.setAttribute("aria-busy", "false");
    if (this.end === null) this.timer = setTimeout(() => this.renew(), Math.max(RENEW, (this.view?.width ?? 60) * 1000));
  }

  /** Whether a list that one reads is open: it would close with new marks. */
  isOpen() {
    return this.querySelector(":popover-open") !== null;
  }

  renew() {
    const isRead = this.isOpen() || this.charts?.at !== null;
    if (!document.hidden && !isRead) this.load();
    else this.timer = setTimeout(() => this.renew(), RENEW);
  }

  /** @param {string} text */
  fail(text) {
    const place = find(this, "[data-error]", HTMLElement);
    place.hidden = !text;
    place.textContent = text;
    if (!text) return;
    const again = made("Try again");
    again.dataset.again = "";
    place.append(again);
  }

  /** @param {Past.Found} found */
  take(found) {
    const view = { ...found, stack: layers(found.columns), colours: new Map() };
    this.view = view;
    const isEmpty = !Object.keys(found.columns).length && !Object.keys(found.engines.servers).length;
    this.showEmpty(found, isEmpty);
    find(this, ".history-body", HTMLElement).hidden = isEmpty;
    const width = Object.keys(found.columns).length ? found.width : found.engines.width;
    const every = width < 60 ? `${width} s` : `${+(width / 60).toFixed(1)} min`;
    const { from, to } = found;
    const isExact = to - from < 2 * HOUR;
    const until = day(from) === day(to) ? clock(to, isExact) : stamp(to, isExact);
    const text = `${stamp(from, isExact)} – ${until}, a point every ${every}`;
    const range = find(this, ".history-range [role=status]", HTMLElement);
    if (range.textContent !== text) range.textContent = text;
    this.showRuns(found.runs);
    this.showAlerts(found.alerts);
    if (!isEmpty) this.draw(view);
    else this.charts?.clear();
  }

  // Leads to where something was recorded.
  /** @param {Past.Found} found @param {boolean} isEmpty */
  showEmpty(found, isEmpty) {
    find(this, "[data-empty]", HTMLElement).hidden = !isEmpty;
    const newest = Number(this.dataset.newest);
    const oldest = Math.max(found.first ?? 0, newest - DAY);
    const button = find(this, "[data-empty] button", HTMLButtonElement);
    button.hidden = !newest;
    button.dataset.from = String(oldest);
    button.dataset.to = String(newest);
    button.textContent = `Show ${stamp(oldest, false)} – ${stamp(newest, false)}`;
  }

  /** @param {Past.View} view */
  draw(view) {
    // A chip has the colour of its layer, and the charts take it from there.
    this.readout?.draw(view, this.hiddenKeys, []);
    for (const chip of all(this, "[data-legend] button", HTMLElement)) {
      view.colours.set(chip.dataset.key ?? "", getComputedStyle(chip, "::before").backgroundColor);
    }
    const readings = this.charts?.draw(view, this.hiddenKeys) ?? [];
    this.readout?.draw(view, this.hiddenKeys, readings);
    find(this, "[data-engines]", HTMLElement).hidden = !Object.keys(view.engines.servers).length;
    this.lane?.draw(view);
    this.point(null);
    this.describe(view);
  }

  /** @param {string} key */
  toggle(key) {
    if (!this.hiddenKeys.delete(key)) this.hiddenKeys.add(key);
    this.redraw();
  }

  /** @param {number | null} at */
  point(at) {
    this.readout?.point(at);
    this.lane?.point(at);
  }

  /** @param {Past.View} view */
  describe({ stack }) {
    const held = stack.flatMap(({ name, values }) => {
      const value = values.findLast((each) => each !== null) ?? 0;
      return value >= 0.05 ? [`${name} ${value.toFixed(1)} GiB`] : [];
    });
    for (const place of all(this, "[data-chart]", HTMLElement)) {
      const title = find(sectionOf(place), "h2", HTMLElement).textContent;
      place.ariaLabel = place.dataset.chart === "memory" ? `Memory by holder, at its end: ${held.join(", ")}` : title;
    }
  }

  /** @param {Past.Run[]} runs */
  showRuns(runs) {
    this.fill("[data-runs]", runs, (run) => [
      link(run.url, run.server),
      run.state,
      ...[run.start, run.ready, run.end].map(orDash),
      this.button(run, `Show the run of ${run.server} from its start to its end`),
    ]);
  }

  /** @param {Past.Alert[]} alerts */
  showAlerts(alerts) {
    this.fill("[data-alerts]", alerts, (alert) => [
      link(alert.url, alert.title),
      alert.severity,
      ...[alert.start, alert.end].map(orDash),
      this.button(alert, `Show the time of: ${alert.title}`),
    ]);
  }

  // The rows of a table that is hidden while it has none.
  /** @template T @param {string} name @param {T[]} found @param {(each: T) => (string | Node)[]} cells */
  fill(name, found, cells) {
    find(this, name, HTMLElement).hidden = !found.length;
    find(this, `${name} tbody`, HTMLElement).replaceChildren(
      ...found.map((each) => {
        const row = document.createElement("tr");
        for (const content of cells(each)) row.insertCell().append(content);
        return row;
      }),
    );
  }

  /** @param {Past.Run | Past.Alert} range @param {string} label */
  button({ start, end: ended }, label) {
    const end = ended ?? this.view?.now ?? start;
    const margin = Math.max(60, (end - start) * 0.1);
    const button = Object.assign(made("Show"), { className: "faint", ariaLabel: label });
    button.dataset.from = String(start - margin);
    button.dataset.to = String(end + margin);
    return button;
  }
}

customElements.define("box-history", BoxHistory);

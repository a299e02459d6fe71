// <box-history>: charts over any range that is kept. The range stands in the address.

import { Charts } from "./history-charts.js";
import { heights, layers, tone } from "./history-stack.js";

const LEAST = 30; // seconds: a narrower range shows nothing
const MOST = 400 * 86400;
const DEFAULT = 86400;
const RENEW = 10_000; // ms, or as long as a point stands for
const HOUR = 3600;

const when = (seconds, options) => new Date(seconds * 1000).toLocaleString([], { hourCycle: "h23", ...options });
const exactly = (seconds) => when(seconds, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const gib = (value) => (value >= 99.95 ? value.toFixed(0) : value.toFixed(1));

const orDash = (at) => (at === null ? "–" : exactly(at));
const link = (href, textContent) => Object.assign(document.createElement("a"), { href, textContent });

class BoxHistory extends HTMLElement {
  connectedCallback() {
    this.charts = new Charts(
      Object.fromEntries([...this.querySelectorAll("[data-chart]")].map((place) => [place.dataset.chart, place])),
      { chosen: (range) => this.choose(range), pointed: (index) => this.point(index) },
    );
    this.readAddress();
    this.addEventListener("click", (event) => this.press(event.target.closest("button")));
    this.addEventListener("keydown", (event) => this.key(event));
    this.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    for (const name of ["gpu", "server"]) this.querySelector(`[name=${name}]`)?.addEventListener("change", (event) => this.go({ [name]: event.target.value }));
    this.querySelector("[name=at]").addEventListener("change", (event) => this.goTo(event.target.value));
    this.redraw = () => this.view && this.draw();
    document.addEventListener("themechange", this.redraw);
    this.load();
  }

  disconnectedCallback() {
    clearTimeout(this.timer);
    this.asking?.abort();
    document.removeEventListener("themechange", this.redraw);
    this.charts.end();
  }

  // --- the range ---

  readAddress() {
    const asked = new URLSearchParams(location.search);
    const [from, to] = [Number(asked.get("from")), Number(asked.get("to"))];
    this.gpu = asked.get("gpu") ?? "";
    this.server = asked.get("server") ?? "";
    this.span = Number(asked.get("span")) || DEFAULT;
    this.end = null; // null: it ends now, and moves on
    if (from > 0 && to > from) [this.span, this.end] = [to - from, to];
    const select = this.querySelector("[name=gpu]");
    if (select) select.value = this.gpu;
    const servers = this.querySelector("[name=server]");
    if (servers) servers.value = this.server;
  }

  range() {
    const end = this.end ?? Date.now() / 1000;
    return [Math.floor(end - this.span), Math.ceil(end)];
  }

  go({ span = this.span, end = this.end, gpu = this.gpu, server = this.server }) {
    const now = Date.now() / 1000;
    this.span = Math.min(MOST, Math.max(LEAST, span));
    this.end = end === null || end >= now ? null : end;
    this.gpu = gpu;
    this.server = server;
    const [from, to] = this.range();
    const said = new URLSearchParams(this.end === null ? { span: Math.round(this.span) } : { from, to });
    if (gpu) said.set("gpu", gpu);
    if (server) said.set("server", server);
    window.history.replaceState(window.history.state, "", `?${said}`);
    this.load();
  }

  choose(range) {
    if (range === null) return this.zoom(4);
    // Each chart tells of a range that was drawn in one of them.
    if (this.chosen) return;
    this.chosen = true;
    queueMicrotask(() => (this.chosen = false));
    this.go({ span: range[1] - range[0], end: range[1] });
  }

  zoom(factor, at = 0.5) {
    const [from, to] = this.range();
    const middle = from + (to - from) * at;
    const span = Math.min(MOST, Math.max(LEAST, this.span * factor));
    // What ends now and grows goes on ending now.
    const end = this.end === null && factor > 1 ? null : middle + span * (1 - at);
    this.go({ span, end });
  }

  move(share) {
    const [, to] = this.range();
    this.go({ end: to + this.span * share });
  }

  goTo(text) {
    const at = Date.parse(text) / 1000;
    if (Number.isFinite(at)) this.go({ span: Math.min(this.span, HOUR), end: at + Math.min(this.span, HOUR) / 2 });
  }

  // --- what people do ---

  press(button) {
    if (!button) return;
    const { span, move, zoom, from, to } = button.dataset;
    if (span) this.go({ span: Number(span), end: null });
    else if (move) this.move(Number(move));
    else if (zoom) this.zoom(Number(zoom));
    else if (from) this.go({ span: Number(to) - Number(from), end: Number(to) });
    else if ("now" in button.dataset) this.go({ end: null });
    else if ("again" in button.dataset) this.load();
  }

  key(event) {
    if (!event.target.closest("[data-chart]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const done = {
      ArrowLeft: () => this.move(-0.25),
      ArrowRight: () => this.move(0.25),
      "+": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      Home: () => this.view?.first && this.go({ end: this.view.first + this.span }),
      End: () => this.go({ end: null }),
    }[event.key];
    if (!done) return;
    event.preventDefault();
    done();
  }

  wheel(event) {
    const place = event.target.closest?.("[data-chart]");
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
    const asked = new URLSearchParams({ from, to, gpu: this.gpu, server: this.server });
    for (const download of this.querySelectorAll("[data-download]")) download.href = `${this.dataset.csv}?${asked}${download.dataset.download && `&of=${download.dataset.download}`}`;
    for (const button of this.querySelectorAll("[data-span]")) {
      button.setAttribute("aria-pressed", this.end === null && Number(button.dataset.span) === Math.round(this.span));
    }
    this.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(`${this.dataset.url}?${asked}`, { signal: asking.signal });
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      this.take(await response.json());
      this.fail("");
    } catch (error) {
      if (asking.signal.aborted) return;
      this.fail(`This part of the history could not be loaded (${error.message}). What is shown is older. `);
    }
    this.setAttribute("aria-busy", "false");
    if (this.end === null) this.timer = setTimeout(() => this.renew(), Math.max(RENEW, (this.view?.width ?? 60) * 1000));
  }

  renew() {
    if (!document.hidden) this.load();
    else this.timer = setTimeout(() => this.renew(), RENEW);
  }

  fail(text) {
    const place = this.querySelector("[data-error]");
    place.hidden = !text;
    place.textContent = text;
    if (!text) return;
    const again = Object.assign(document.createElement("button"), { type: "button", textContent: "Try again" });
    again.dataset.again = "";
    place.append(again);
  }

  take(found) {
    const stack = layers(found.columns);
    this.view = { ...found, stack, heights: heights(stack) };
    const isEmpty = !Object.keys(found.columns).length && !Object.keys(found.engines.servers).length;
    const empty = this.querySelector("[data-empty]");
    empty.hidden = !isEmpty;
    empty.textContent = `Nothing was recorded in this time. ${found.first ? `The oldest record is of ${exactly(found.first)}.` : ""}`;
    this.querySelector(".history-charts").hidden = isEmpty;
    const width = Object.keys(found.columns).length ? found.width : found.engines.width;
    const every = width < 60 ? `${width} s` : `${+(width / 60).toFixed(1)} min`;
    const text = `${exactly(found.from)} – ${exactly(found.to)}, a point every ${every}`;
    const range = this.querySelector(".history-range");
    if (range.textContent !== text) range.textContent = text;
    this.showRuns(found.runs);
    this.showAlerts(found.alerts);
    if (!isEmpty) this.draw();
    else this.charts.clear();
  }

  draw() {
    const legend = this.querySelector("[data-legend]");
    legend.replaceChildren(
      ...this.view.stack.map((layer) => {
        const item = document.createElement("li");
        item.className = `part-${layer.kind}${layer.tone ? ` tone-${layer.tone}` : ""}${layer.kind === "unattributed" || layer.kind === "driver_pool" ? " is-loud" : ""}`;
        const name = document.createElement("span");
        name.textContent = layer.name;
        item.append(name, document.createElement("strong"));
        return item;
      }),
    );
    this.showEngines();
    this.view.colours = [...legend.children].map((item) => getComputedStyle(item, "::before").backgroundColor);
    this.charts.draw(this.view);
    this.point(null);
    this.describe();
  }

  point(index) {
    const { stack, t, columns } = this.view;
    const at = index ?? this.last();
    for (const [place, item] of [...this.querySelectorAll("[data-legend] li")].entries()) {
      const value = stack[place]?.values[at] ?? null;
      item.lastChild.textContent = value === null ? "–" : gib(value);
    }
    const figure = (name, by, unit) => (columns[name]?.[at] == null ? null : `${Math.round(columns[name][at] / by)} ${unit}`);
    const titles = { "held-title": "Who held the memory, GiB", "util-title": "Utilisation", "power-title": "Power", "temperature-title": "Temperature" };
    const said = { "held-title": "", "util-title": figure("util", 1, "%"), "power-title": figure("power", 10, "W"), "temperature-title": figure("temperature", 1, "°C") };
    for (const [id, title] of Object.entries(titles)) {
      const parts = [title, said[id] && `${said[id]}`, index === null || t[at] === undefined ? "" : `at ${exactly(t[at])}`];
      this.querySelector(`#${id}`).textContent = parts.filter(Boolean).join(" · ");
    }
  }

  /** Whose lines are whose, where there are several. */
  showEngines() {
    const slugs = Object.keys(this.view.engines.servers);
    this.querySelector("[data-engines]").hidden = !slugs.length;
    this.querySelector("[data-engines] ul").replaceChildren(
      ...(slugs.length > 1 ? slugs : []).map((slug) => {
        const item = document.createElement("li");
        item.className = `part-server tone-${tone(`=server:${slug}`)}`;
        item.textContent = slug;
        return item;
      }),
    );
  }

  last() {
    const free = this.view.stack.at(-1)?.values ?? [];
    return free.findLastIndex((value) => value !== null);
  }

  describe() {
    const at = this.last();
    const held = this.view.stack.filter((layer) => (layer.values[at] ?? 0) >= 0.05).map((layer) => `${layer.name} ${gib(layer.values[at])} GiB`);
    for (const place of this.querySelectorAll("[data-chart]")) {
      const title = place.closest("section").querySelector("h2").textContent;
      place.ariaLabel = place.dataset.chart === "memory" ? `Memory by holder, at its end: ${held.join(", ")}` : title;
    }
  }

  showRuns(runs) {
    this.fill("[data-runs]", runs, (run) => [
      link(run.url, run.server),
      run.state,
      ...[run.start, run.ready, run.end].map(orDash),
      this.button(run, `Show the run of ${run.server} from its start to its end`),
    ]);
  }

  showAlerts(alerts) {
    this.fill("[data-alerts]", alerts, (alert) => [
      link(alert.url, alert.title),
      alert.severity,
      ...[alert.start, alert.end].map(orDash),
      this.button(alert, `Show the time of: ${alert.title}`),
    ]);
  }

  /** The rows of a table that is hidden while it has none. */
  fill(name, found, cells) {
    this.querySelector(name).hidden = !found.length;
    this.querySelector(`${name} tbody`).replaceChildren(
      ...found.map((each) => {
        const row = document.createElement("tr");
        for (const content of cells(each)) row.insertCell().append(content);
        return row;
      }),
    );
  }

  button({ start, end: ended }, label) {
    const end = ended ?? this.view.now;
    const margin = Math.max(60, (end - start) * 0.1);
    const made = Object.assign(document.createElement("button"), { type: "button", textContent: "Show", className: "faint", ariaLabel: label });
    made.dataset.from = start - margin;
    made.dataset.to = end + margin;
    return made;
  }
}

customElements.define("box-history", BoxHistory);

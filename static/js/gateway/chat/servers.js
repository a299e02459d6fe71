// @ts-check
// Which servers can answer. The socket keeps the hidden list in the page up to date; this
// shows it as a choice.

import { all } from "../../page/parts.js";

/** @implements {Chat.Choice} */
export class Servers extends EventTarget {
  /** @type {Chat.Server[]} */
  all = [];

  /** @param {{list: HTMLElement, select: HTMLSelectElement, here: string, preselected: string}} parts */
  constructor({ list, select, here, preselected }) {
    super();
    this.place = list.parentElement ?? list;
    this.select = select;
    this.here = here;
    this.wanted = preselected; // a slug; kept while its server is not ready
    select.addEventListener("change", () => {
      this.wanted = select.value;
      this.changed();
    });
    new MutationObserver(() => this.read()).observe(this.place, {
      subtree: true, childList: true, attributes: true,
    });
    this.read();
  }

  read() {
    this.all = all(this.place, "li[data-slug]", HTMLElement).map(({ dataset }) => ({
      slug: dataset.slug ?? "",
      box: dataset.box ?? "",
      state: dataset.state ?? "",
      wanted: dataset.wanted ?? "",
      model: dataset.model ?? "",
      url: dataset.url ?? "",
      engine: dataset.engine ?? "",
      images: dataset.images ?? "",
      lacks: dataset.lacks ?? "",
      run: Number(dataset.run),
      isReady: dataset.state === "ready" && dataset.wanted === "running" && dataset.box === this.here,
    }));
    const ready = this.all.filter((server) => server.isReady);
    if (!this.find(this.wanted) && ready[0]) this.wanted = ready[0].slug;
    this.drawChoice(ready);
    this.changed();
  }

  /** @param {Chat.Server[]} ready */
  drawChoice(ready) {
    const options = ready.map((server) => new Option(`${server.slug} · ${server.model}`, server.slug));
    const wanted = this.find(this.wanted);
    if (wanted && !wanted.isReady) options.unshift(new Option(`${wanted.slug} (${stateOf(wanted)})`, wanted.slug));
    if (!options.length) options.push(new Option("no server is ready", ""));
    this.select.replaceChildren(...options);
    this.select.value = wanted?.slug ?? "";
    this.select.disabled = options.length < 2 && !ready.length;
  }

  /** @param {string} slug @returns {Chat.Server | undefined} */
  find(slug) {
    return this.all.find((server) => server.slug === slug);
  }

  // The one that a conversation was with last, ready or not; another where that one is gone.
  /** @param {string} slug */
  prefer(slug) {
    if (!this.find(slug)) return;
    this.wanted = slug;
    this.read();
  }

  // The chosen server when it can answer, else null.
  get chosen() {
    const server = this.find(this.wanted);
    return server?.isReady ? server : null;
  }

  get starting() {
    return this.all.filter((s) => ["queued", "pulling", "creating", "starting"].includes(s.state));
  }

  // Why the chosen server cannot answer; "" when it can.
  get problem() {
    const server = this.find(this.wanted);
    if (!server) return "No server is ready.";
    if (server.isReady) return "";
    if (server.box !== this.here) return `${server.slug} runs on ${server.box}, which the playground here does not reach.`;
    return `${server.slug} is ${stateOf(server)}. You can send as soon as it is ready, or pick another server.`;
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }
}

/** @param {Chat.Server} server */
const stateOf = (server) =>
  server.state === "ready" && server.wanted !== "running" ? "about to stop" : server.state || "not started";

// @ts-check
// Which servers can answer, where the chosen one is, and what stands there while nothing has been said.
// The socket keeps the hidden list in the page up to date; this reads it.

import { all } from "../../page/parts.js";
import { element } from "../../page/dom.js";

/** @implements {Chat.Choice} */
export class Servers extends EventTarget {
  /** @type {Chat.Server[]} */
  all = [];

  // `here`: the boxes that the playground reaches, as words.
  /** @param {{list: HTMLElement, here: string, preselected: string}} parts */
  constructor({ list, here, preselected }) {
    super();
    this.place = list.parentElement ?? list;
    this.here = new Set(here.split(" "));
    this.wanted = preselected; // a slug; kept while its server is not ready
    new MutationObserver(() => this.read()).observe(this.place, {
      subtree: true, childList: true, attributes: true,
    });
    this.read();
  }

  read() {
    this.all = all(this.place, "li[data-slug]", HTMLElement).map(({ dataset }) => ({
      slug: dataset.slug ?? "",
      box: dataset.box ?? "",
      on: dataset.on ?? "",
      state: dataset.state ?? "",
      wanted: dataset.wanted ?? "",
      model: dataset.model ?? "",
      url: dataset.url ?? "",
      engine: dataset.engine ?? "",
      images: dataset.images ?? "",
      tools: dataset.tools ?? "",
      context: Number(dataset.context),
      lacks: dataset.lacks ?? "",
      run: Number(dataset.run),
      isReady: dataset.state === "ready" && dataset.wanted === "running" && this.here.has(dataset.box ?? ""),
    }));
    const ready = this.all.find((server) => server.isReady);
    if (!this.find(this.wanted) && ready) this.wanted = ready.slug;
    this.changed();
  }

  /** @param {string} slug @returns {Chat.Server | undefined} */
  find(slug) {
    return this.all.find((server) => server.slug === slug);
  }

  // The one that a conversation was with last, ready or not; another where that one is gone.
  /** @param {string} slug */
  prefer(slug) {
    if (!this.find(slug) || slug === this.wanted) return;
    this.wanted = slug;
    this.changed();
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
    if (!this.here.has(server.box)) return `${server.slug} runs on ${server.box}, which the playground here does not reach.`;
    return `${server.slug} ${server.state === "failed" ? "has failed" : `is ${stateOf(server)}`}. You can send as soon as it is ready, or pick another server.`;
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }
}

/** @param {Chat.Server} server */
export const stateOf = (server) =>
  server.state === "ready" && server.wanted !== "running" ? "about to stop" : server.state || "not started";

// Where the chosen server is and what it does: the socket sends that of all, one is shown.
export class Standing {
  /** @param {{root: HTMLElement, servers: Chat.Choice}} parts */
  constructor({ root, servers }) {
    this.root = root;
    this.servers = servers;
    servers.addEventListener("change", () => this.show());
    new MutationObserver(() => this.show()).observe(root, { subtree: true, childList: true, attributeFilter: ["hidden"] });
    this.show();
  }

  show() {
    for (const each of all(this.root, "[data-standing]", HTMLElement)) {
      const hidden = each.dataset.standing !== this.servers.wanted;
      if (each.hidden !== hidden) each.hidden = hidden;
    }
  }
}

// What stands where no server is ready. No address of a dashboard: the person sees none.
/** @param {Servers} servers @param {string} dashboard */
export function emptyState(servers, dashboard) {
  const { starting } = servers;
  if (servers.find(servers.wanted)) return []; // where it is, and its start, stands below
  /** @param {string} text @param {string} href */
  const link = (text, href) => Object.assign(element("a", "", text), { href });
  if (!starting.length) {
    const start = dashboard ? ["Start one on the ", link("dashboard", dashboard), "; it"] : ["Ask an operator to start one; it"];
    return [element("h2", "", "No server is ready"), element("p", "", ...start, " appears here by itself.")];
  }
  return [
    element("h2", "", "No server is ready yet"),
    element("p", "", ...starting.flatMap((s, at) => [at ? ", " : "", dashboard ? link(s.slug, s.url) : s.slug]),
      starting.length > 1 ? " are on their way, and appear here by themselves." : ` is ${starting[0]?.state}. It appears here by itself when it is ready.`),
  ];
}

// @ts-check
// The lane of a history: what happened when, as marks on a line of time. Each opens a list of its events.

import { icon } from "../page/toast.js";
import { clock, cluster, stamp } from "./history-places.js";

const ROOM = 28; // px that a mark takes
// The worst first: it stands for what else happened in its place.
const KINDS = ["failed", "alerts", "restart", "stop", "start", "ready", "info"];
// A start that takes such a share of the range is told by its phases: below, they would be one blot.
const WIDE = 0.1;

/**
 * What happened in the range that is shown, the oldest first.
 * @param {Past.Found} found @returns {Past.Event[]}
 */
export function list({ runs, alerts, reboots, from, to, now }) {
  const ofRuns = runs.flatMap(({ server, url, state, start, ready, end, phases }) => {
    const isWide = (ready ?? end ?? now) - start >= (to - from) * WIDE;
    const steps = isWide ? phases.map(({ words, at }) => ({ at, kind: "info", words: `${server}: ${words}`, url })) : [];
    return [
      { at: start, kind: "start", words: `${server} starts`, url },
      ...steps,
      { at: ready, kind: "ready", words: `${server} is ready`, url },
      state === "failed" ? { at: end, kind: "failed", words: `${server} failed`, url } : { at: end, kind: "stop", words: `${server} ends`, url },
    ];
  });
  const ofAlerts = alerts.map(({ title, start, url }) => ({ at: start, kind: "alerts", words: title, url }));
  const ofBox = reboots.map(({ at, words, url }) => ({ at, kind: "restart", words, url }));
  return [...ofRuns, ...ofAlerts, ...ofBox]
    .flatMap(({ at, ...event }) => (at !== null && at >= from && at <= to ? [{ at, ...event }] : []))
    .sort((one, other) => one.at - other.at);
}

export class Lane {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    /** @type {Past.Found | null} */
    this.found = null;
    this.drawn = "";
    this.cursor = document.createElement("span");
    this.cursor.className = "lane-cursor";
    this.cursor.hidden = true;
    this.resizing = new ResizeObserver(() => this.found && this.draw(this.found));
    this.resizing.observe(place);
  }

  end() {
    this.resizing.disconnect();
  }

  /** @param {number} at */
  share(at) {
    const { from = 0, to = 1 } = this.found ?? {};
    return (at - from) / (to - from || 1);
  }

  /** @param {Past.Found} found */
  draw(found) {
    this.found = found;
    const events = list(found);
    const width = this.place.clientWidth;
    const drawn = JSON.stringify([found.from, found.to, width, events]);
    if (drawn === this.drawn || !width) return;
    this.drawn = drawn;
    const groups = cluster(events.map(({ at }) => this.share(at) * width), ROOM);
    const marks = groups.flatMap((indices) => {
      const mine = indices.flatMap((index) => events[index] ?? []);
      return this.mark(mine);
    });
    const none = Object.assign(document.createElement("span"), { className: "quiet", textContent: "No start, stop, failure, alert or restart in this time." });
    this.place.replaceChildren(...(marks.length ? marks : [none]), ...this.times(found), this.cursor);
  }

  // The range in five places.
  /** @param {Past.Found} found */
  times({ from, to }) {
    return [0, 0.25, 0.5, 0.75, 1].map((share) => {
      const at = from + (to - from) * share;
      const label = Object.assign(document.createElement("span"), { className: "lane-time", textContent: to - from > 86_400 ? stamp(at, false) : clock(at, to - from < 600) });
      label.style.left = `${share * 100}%`;
      return label;
    });
  }

  /** @param {Past.Event[]} events of one place */
  mark(events) {
    const [first] = events;
    if (!first) return [];
    const kind = KINDS.find((each) => events.some((event) => event.kind === each)) ?? "start";
    const button = Object.assign(document.createElement("button"), { type: "button", className: `mark mark-${kind}` });
    const shown = events.map(({ at, words }) => `${stamp(at)} ${words}`);
    button.title = shown.slice(0, 8).join("\n");
    button.ariaLabel = events.length === 1 ? (shown[0] ?? "") : `${events.length} events from ${stamp(first.at)}`;
    button.append(icon(kind));
    if (events.length > 1) button.append(Object.assign(document.createElement("span"), { textContent: String(events.length) }));
    button.style.left = `${(this.share(first.at) * 100).toFixed(3)}%`;
    const menu = Object.assign(document.createElement("div"), { className: "menu lane-menu", popover: "auto" });
    menu.append(
      ...events.map(({ at, kind: of, words, url }) => {
        const link = Object.assign(document.createElement("a"), { href: url });
        const time = Object.assign(document.createElement("span"), { className: "quiet nowrap", textContent: stamp(at) });
        link.append(icon(of), time, words);
        return link;
      }),
    );
    button.popoverTargetElement = menu;
    return [button, menu];
  }

  /** @param {number | null} at */
  point(at) {
    this.cursor.hidden = at === null;
    if (at !== null) this.cursor.style.left = `${(this.share(at) * 100).toFixed(3)}%`;
  }
}

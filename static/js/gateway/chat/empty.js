// @ts-check
// What stands where nothing has been said yet.

import { element } from "../../page/dom.js";

/** @import { Servers } from "./servers.js" */

/** @param {Servers} servers @param {string} dashboard */
export function emptyState(servers, dashboard) {
  const { chosen, starting } = servers;
  if (chosen) return [element("p", "", `Ask ${chosen.model} something. Enter sends, Shift+Enter makes a new line, Esc stops, Up edits your last question.`)];
  if (servers.find(servers.wanted)) return []; // above stands where it is, and its start
  /** @param {string} text @param {string} href */
  const link = (text, href) => Object.assign(element("a", "", text), { href });
  if (!starting.length) {
    return [
      element("h2", "", "No server is ready"),
      element("p", "", "Start one on the ", link("dashboard", dashboard), "; it appears here by itself as soon as it is ready."),
    ];
  }
  return [
    element("h2", "", "No server is ready yet"),
    ...starting.map((s) => element("p", "", link(s.slug, s.url), ` is ${s.state}. It appears here by itself when it is ready.`)),
  ];
}

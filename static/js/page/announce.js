// @ts-check
// Says to screen readers what eyes see: a server has become ready, failed or stopped.

import { byId } from "./parts.js";

/** @type {Record<string, string>} */
const WORDS = { ready: "is ready", failed: "failed", stopped: "has stopped" };

const announcements = byId("announcements", HTMLElement);
new MutationObserver((changes) => {
  for (const { target, oldValue } of changes) {
    if (!(target instanceof HTMLElement)) continue;
    const { name, state = "" } = target.dataset;
    if (name && state !== oldValue && WORDS[state]) announcements.textContent = `${name} ${WORDS[state]}`;
  }
}).observe(byId("main", HTMLElement), {
  subtree: true,
  attributeFilter: ["data-state"],
  attributeOldValue: true,
});

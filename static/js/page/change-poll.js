// @ts-check
// Tells the page that something of which it shows only a mark has changed: what images say
// (data-images), what lies on the disks (data-models), which alert was over last (data-over), what a
// capture has kept (data-captures), which names programs may ask for (data-names), which run of a
// server is the latest and how it does (data-runs), how far check-ups are (data-checkups). It is asked for by those who show it, with the
// trigger "images from:body", "models from:body", ….

import { byId } from "./parts.js";

/** @type {Record<string, string>} */
const MARKS = {
  "data-images": "images",
  "data-models": "models",
  "data-over": "over",
  "data-jobs": "jobs",
  "data-captures": "captures",
  "data-names": "names",
  "data-runs": "runs",
  "data-checkups": "checkups",
};

const main = byId("main", HTMLElement);
new MutationObserver((changes) => {
  const names = changes.flatMap(({ target, attributeName: name, oldValue }) =>
    name && target instanceof Element && target.getAttribute(name) !== oldValue ? [name] : [],
  );
  for (const name of new Set(names)) document.body.dispatchEvent(new CustomEvent(MARKS[name] ?? name));
}).observe(main, { subtree: true, attributeFilter: Object.keys(MARKS), attributeOldValue: true });

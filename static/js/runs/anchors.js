// @ts-check
// Old addresses of a server's page: what stood on it under an anchor has a tab of its own.

/** @type {[RegExp, string][]} */
const TABS = [
  [/^#(?:L\d+(?:-L?\d+)?|log(?:-.*)?)$/, "log/"],
  [/^#engine-figures/, "metrics/"],
  [/^#run-command$/, "configuration/"],
  [/^#runs(?:-title)?$/, "runs/"],
];

const found = TABS.find(([old]) => old.test(location.hash));
if (found) location.replace(`${location.pathname}${found[1]}${location.search}${location.hash}`);

// @ts-check
// What every page does beyond its HTML: small things here, others in modules of their own.

import "./connection.js";
import "./notifications.js";
import "./palette-keys.js";
import "./sidebar.js";
import { relative, span } from "./ago.js";
import { copy } from "./clipboard.js";
import { show } from "./dialog.js";
import { fetchPart, quietly } from "./fetch-part.js";
import { all, around, byId, find } from "./parts.js";
import { adoptToasts } from "./toast.js";

adoptToasts();

// Lists are on some pages alone.
function loadLists() {
  if (document.querySelector("list-table")) quietly(fetchPart("sorts lists", () => import("./list-table.js")));
}

loadLists();
document.addEventListener("htmx:after:swap", loadLists);

// Says to screen readers what eyes see: a server has become ready, failed or stopped.
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

// Buttons that copy: data-copy names the element whose text it is.
const SAID_FOR = 1500; // ms

document.addEventListener("click", async (event) => {
  const button = around(event, "button[data-copy]", HTMLElement);
  if (!button?.dataset.copy) return;
  const label = button.textContent;
  button.textContent = (await copy(find(document, button.dataset.copy, HTMLElement).textContent)) ? "Copied" : "Not copied";
  announcements.textContent = button.textContent;
  setTimeout(() => (button.textContent = label), SAID_FOR);
});

// Keeps relative times true while a page is open.
function refresh() {
  for (const element of all(document, "time[data-show=ago], time[data-show=since]", HTMLTimeElement)) {
    const seconds = (Date.now() - Date.parse(element.dateTime)) / 1000;
    const text = element.dataset.show === "ago" ? relative(seconds, element.dateTime) : span(seconds);
    if (element.textContent !== text) element.textContent = text;
  }
}

refresh();
setInterval(refresh, 1000);

// Counts in the tab's title what needs attention: the tab is seen while another is looked at.
const words = document.title;

function count() {
  const found = Number(document.getElementById("bell")?.dataset.count ?? 0);
  document.title = found ? `(${found}) ${words}` : words;
}

const bar = document.getElementById("bell")?.parentElement;
if (bar) {
  new MutationObserver(count).observe(bar, { subtree: true, childList: true, attributeFilter: ["data-count"] });
  count();
}

// "?" tells the keys, unless one is typing.
function help() {
  const template = document.getElementById("keys-help");
  if (template instanceof HTMLTemplateElement) show(template.content.cloneNode(true));
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (around(event, "input, textarea, select, [contenteditable]", HTMLElement)) return;
  if (event.key !== "?") return;
  event.preventDefault();
  help();
});

document.addEventListener("click", (event) => {
  if (around(event, "[data-keys-help]", HTMLElement)) help();
});

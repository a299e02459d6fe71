// @ts-check
// What opens the palette: "/", Ctrl+K, ⌘K and buttons. What finds things comes when it is first opened.

import { fetchPart, quietly } from "./fetch-part.js";
import { all, around, find } from "./parts.js";

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
if (isMac) for (const each of all(document, "kbd[data-mac]", HTMLElement)) each.textContent = each.dataset.mac ?? "";

// A popover and no modal dialog: for one of those browsers restyle the whole page, twice.
function open() {
  const palette = document.getElementById("palette");
  if (!palette || palette.matches(":popover-open") || document.querySelector("dialog:modal")) return;
  palette.showPopover();
  const field = find(palette, "input", HTMLInputElement);
  field.focus();
  field.select();
  quietly(fetchPart("finds pages, servers and actions", () => import("./palette.js")).then(({ begin }) => begin()));
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey) return;
  const isCommand = (isMac ? event.metaKey : event.ctrlKey) && event.key.toLowerCase() === "k";
  const isSlash =
    event.key === "/" && !event.ctrlKey && !event.metaKey &&
    !around(event, "input, textarea, select, [contenteditable]", HTMLElement) && !document.querySelector("run-log.is-page");
  if (!isCommand && !isSlash) return;
  event.preventDefault();
  open();
});

document.addEventListener("click", (event) => {
  if (around(event, "[data-palette]", HTMLElement)) open();
});

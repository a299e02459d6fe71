// @ts-check
// "/" goes to the search field and "?" tells the keys, unless one is typing.

import { show } from "../page/dialog.js";
import { around } from "../page/parts.js";

function help() {
  const template = document.getElementById("keys-help");
  if (template instanceof HTMLTemplateElement) show(template.content.cloneNode(true));
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (around(event, "input, textarea, select, [contenteditable]", HTMLElement)) return;
  if (event.key === "?") {
    event.preventDefault();
    help();
    return;
  }
  if (event.key !== "/") return;
  const search = document.getElementById("search");
  if (!(search instanceof HTMLInputElement)) return;
  event.preventDefault();
  search.focus();
  search.select();
});

document.addEventListener("click", (event) => {
  if (around(event, "[data-keys-help]", HTMLElement)) help();
});

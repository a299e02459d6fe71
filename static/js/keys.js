// @ts-check
// "/" goes to the search field, unless one is typing.

import { around } from "./parts.js";

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (around(event, "input, textarea, select, [contenteditable]", HTMLElement)) return;
  const search = document.getElementById("search");
  if (!(search instanceof HTMLInputElement)) return;
  event.preventDefault();
  search.focus();
  search.select();
});

// @ts-check
// Adds up what is chosen of a model, and says whether the chosen folder has room for it.

import { all, around, byId, find } from "../page/parts.js";

const GIB = 2 ** 30;
const main = byId("main", HTMLElement);

/** @param {number} bytes */
function shown(bytes) {
  const value = bytes / GIB;
  if (value >= 99.95) return `${value.toFixed(0)} GiB`;
  return `${value.toFixed(value > 0 && value < 0.095 ? 2 : 1)} GiB`;
}

/** @param {HTMLElement} form */
function chosen(form) {
  return all(form, 'input[name="files"]:checked', HTMLInputElement);
}

/** @param {HTMLElement} form */
function say(form) {
  const boxes = chosen(form);
  const needs = find(form, "#needs", HTMLElement);
  const total = boxes.reduce((sum, each) => sum + Number(each.dataset.size), 0);
  /** @type {HTMLInputElement | null} */
  const target = form.querySelector('input[name="into"]:checked');
  /** @type {Record<string, number>} */
  const there = JSON.parse(target?.dataset.there ?? "{}");
  // A pattern writes * ? and [ of a name in brackets.
  const names = boxes.flatMap((each) => each.value.split("\n")).map((name) => name.replace(/\[([*?[])\]/g, "$1"));
  const here = names.reduce((sum, name) => sum + (there[name] ?? 0), 0);
  const free = target?.dataset.free ? Number(target.dataset.free) : null;
  const isTooMuch = free !== null && total - here > free;
  needs.textContent = boxes.length
    ? `${shown(total)}${here ? `, ${shown(here)} of it there already` : ""}.${isTooMuch ? ` There is no room for that: ${shown(free)} are free.` : ""}`
    : "Nothing is chosen.";
  needs.classList.toggle("attention-text", isTooMuch || !boxes.length);
}

main.addEventListener("change", (event) => {
  const form = around(event, ".download-files", HTMLElement);
  if (form) say(form);
});

new MutationObserver(() => {
  /** @type {HTMLElement | null} */
  const form = main.querySelector(".download-files:not([data-said])");
  if (!form) return;
  form.dataset.said = "";
  say(form);
}).observe(main, { subtree: true, childList: true });

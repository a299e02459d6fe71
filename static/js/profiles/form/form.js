// @ts-check
// The profile form: its folded sections, and what a chosen model brings along.

import "../../page/combo-box.js";
import "./gpu-picker.js";
import "./draft.js";
import { all, around, byId } from "../../page/parts.js";

/** @import { Choice } from "../../page/combo-box.js" */

const OPENED = "form-sections"; // in localStorage: which ones this person has left open
const PHONE = "(max-width: 48rem)";

const form = byId("profile-form", HTMLFormElement);
const check = byId("check", HTMLElement);

// Sections: those that were left open are open again.
const opened = new Set(JSON.parse(localStorage.getItem(OPENED) ?? "[]"));

for (const section of all(form, "details.fold", HTMLDetailsElement)) {
  if (opened.has(section.id)) section.open = true;
  section.querySelector("summary")?.addEventListener("click", () => {
    // It is about to change.
    if (section.open) opened.delete(section.id);
    else opened.add(section.id);
    localStorage.setItem(OPENED, JSON.stringify([...opened]));
  });
}

// A link to a field opens what it is folded in.
document.addEventListener("click", (event) => {
  const link = around(event, 'a[href^="#id_"]', HTMLAnchorElement);
  const field = link && document.getElementById(link.hash.slice(1));
  if (!field) return;
  event.preventDefault();
  const section = field.closest("details");
  if (section) section.open = true;
  field.focus();
});

// What a person has unfolded among the checks stays so when they come anew.
/** @type {Map<string, boolean>} */
const unfolded = new Map();
check.addEventListener(
  "toggle",
  ({ target }) => {
    if (target instanceof HTMLDetailsElement && target.isConnected) unfolded.set(target.dataset.fold ?? "", target.open);
  },
  true,
);
new MutationObserver(() => {
  for (const part of all(check, "details[data-fold]", HTMLDetailsElement)) {
    const open = unfolded.get(part.dataset.fold ?? "");
    if (open !== undefined) part.open = open;
  }
}).observe(check, { childList: true });

// On a phone the checks stand above the sections, folded.
if (matchMedia(PHONE).matches) for (const fold of all(document, ".check-fold", HTMLDetailsElement)) fold.open = false;

/** @param {string} name @returns {HTMLInputElement | HTMLTextAreaElement | null} */
function field(name) {
  const found = form.elements.namedItem(name);
  return found instanceof HTMLInputElement || found instanceof HTMLTextAreaElement ? found : null;
}

form.addEventListener("combo-choice", (event) => {
  if (!(event instanceof CustomEvent)) return;
  const { sets = {}, adds = {} } = /** @type {Choice} */ (event.detail);
  for (const [name, value] of Object.entries(sets)) {
    const box = field(name);
    if (box) box.value = value;
  }
  for (const [name, text] of Object.entries(adds)) {
    const box = field(name);
    const lines = box?.value.split("\n").filter(Boolean) ?? [];
    if (box && text && !lines.includes(text)) box.value = [...lines, text].join("\n");
  }
});

// @ts-check
// Toasts: what was done, for some seconds, and what went wrong, until it is closed. Both are announced.

import { all, byId } from "./parts.js";

// How long one is shown, longer while the pointer or the focus is on it.
const LEAST = 8000; // ms
const WORD = 500; // ms, to read one
const MOST = 3;

/** @param {string} name as in tests/icons.py */
export function icon(name) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  made.setAttribute("class", "icon");
  made.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#icon-${name}`);
  made.append(use);
  return made;
}

/** @param {string} text @param {SVGElement} sign */
function make(text, sign) {
  const made = document.createElement("div");
  made.className = "toast";
  made.append(sign, Object.assign(document.createElement("p"), { textContent: text }));
  addClose(made);
  return made;
}

/** @param {HTMLElement} made */
function addClose(made) {
  const close = document.createElement("button");
  close.type = "button";
  close.className = "faint icon-button";
  close.ariaLabel = "Close";
  close.append(icon("close"));
  close.addEventListener("click", () => made.remove());
  made.append(close);
}

/** @param {HTMLElement} made */
function endLater(made) {
  const shown = Math.max(LEAST, WORD * made.textContent.split(/\s+/).length);
  const end = () => (made.matches(":hover, :focus-within") ? setTimeout(end, shown) : made.remove());
  setTimeout(end, shown);
}

/** Those that came with the page: what an action before it has done. */
export function adoptToasts() {
  for (const made of all(byId("toasts", HTMLElement), ".toast", HTMLElement)) {
    addClose(made);
    endLater(made);
  }
}

/**
 * Says what was done.
 * @param {string} text
 * @param {{title: string, run: () => unknown}} [undo] a button that takes it back
 */
export function toast(text, undo) {
  const place = byId("toasts", HTMLElement);
  const made = make(text, icon("ready"));
  if (undo) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: undo.title });
    button.addEventListener("click", () => (made.remove(), undo.run()));
    made.lastElementChild?.before(button);
  }
  place.append(made);
  while (place.childElementCount > MOST) place.firstElementChild?.remove();
  endLater(made);
}

/** Says what was refused or went wrong. @param {string} text */
export function complain(text) {
  byId("trouble", HTMLElement).replaceChildren(make(text, icon("failed")));
}

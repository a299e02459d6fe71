// @ts-check
// Toasts: what was done, for some seconds, and what went wrong, until it is closed. Both are announced.

import { byId } from "./parts.js";

const SHOWN = 6000; // ms; longer while the pointer or the focus is on it
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
  const close = document.createElement("button");
  close.type = "button";
  close.className = "faint icon-button";
  close.ariaLabel = "Close";
  close.append(icon("close"));
  close.addEventListener("click", () => made.remove());
  made.append(sign, Object.assign(document.createElement("p"), { textContent: text }), close);
  return made;
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
  const go = () => (made.matches(":hover, :focus-within") ? setTimeout(go, SHOWN) : made.remove());
  setTimeout(go, SHOWN);
}

/** Says what was refused or went wrong. @param {string} text */
export function complain(text) {
  byId("trouble", HTMLElement).replaceChildren(make(text, icon("failed")));
}

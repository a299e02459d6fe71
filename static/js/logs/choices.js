// @ts-check
// What a person has chosen of how logs look, in this browser: ticks of the menu, kept for the next time.

import { find } from "../page/parts.js";

const WIDE = 640; // px; narrower, times take too much of a line

/** @typedef {"wrap" | "times" | "raw" | "harmless" | "every-line" | "fold" | "full"} Choice */

/** @param {HTMLElement} root @returns {[Choice, boolean][]} */
export function chosen(root) {
  /** @param {Choice} name @param {boolean} usual @returns {[Choice, boolean]} */
  const choice = (name, usual) => [name, usual ? remembered(name) !== "no" : remembered(name) === "yes"];
  return [
    choice("wrap", true),
    choice("times", root.clientWidth >= WIDE),
    choice("raw", false),
    choice("harmless", true),
    choice("fold", false),
  ];
}

/** @param {HTMLElement} root @param {Choice} name @param {boolean} yes */
export function tick(root, name, yes) {
  find(root, `[role=menuitemcheckbox][data-action=${name}]`, HTMLElement).ariaChecked = String(yes);
}

// Storage may be switched off in this browser: choices then last for one page.
/** @param {string} name */
export function remembered(name) {
  try {
    return localStorage.getItem(`log.${name}`);
  } catch {
    return null;
  }
}

/** @param {string} name @param {boolean} yes */
export function remember(name, yes) {
  try {
    localStorage.setItem(`log.${name}`, yes ? "yes" : "no");
  } catch {
    // See above.
  }
}

// @ts-check
// What keys mean in a log: those of a pager, and a letter for what is chosen often. None while one types.

import { around } from "../page/parts.js";

/** @type {Record<string, string>} */
const KEYS = {
  "/": "text", ":": "line", n: "next", N: "previous", g: "start", Home: "start", G: "end", End: "end",
  e: "errors", f: "full", w: "wrap", t: "times", Escape: "leave",
};

// The action, as buttons name it; "": none.
/** @param {KeyboardEvent} event */
export function actionOf(event) {
  if (event.altKey || event.metaKey) return "";
  if (event.ctrlKey) return event.key === "f" ? "text" : "";
  return around(event, "input, select, textarea, [popover]", HTMLElement) ? "" : (KEYS[event.key] ?? "");
}

// Keys in the log; and where the log is the page, "/" wherever the focus is.
export class LogKeys {
  /** @param {HTMLElement} root @param {(event: KeyboardEvent) => void} act */
  constructor(root, act) {
    this.root = root;
    this.act = act;
    root.addEventListener("keydown", act);
    if (root.classList.contains("is-page")) document.addEventListener("keydown", this.onSlash);
  }

  /** @param {KeyboardEvent} event */
  onSlash = (event) => {
    if (event.key === "/" && !event.defaultPrevented && !document.querySelector("dialog[open]")) this.act(event);
  };

  close() {
    this.root.removeEventListener("keydown", this.act);
    document.removeEventListener("keydown", this.onSlash);
  }
}

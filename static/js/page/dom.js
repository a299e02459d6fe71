// @ts-check
// Pieces of the playground's DOM. Texts go in as texts, never as markup.

import { byId, find } from "./parts.js";

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {string} [className]
 * @param {...(string | Node)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** @param {string} label @param {string} title @param {(event: MouseEvent) => unknown} onClick */
export function button(label, title, onClick) {
  const made = element("button", "quiet", label);
  made.type = "button";
  if (title) made.setAttribute("aria-label", title);
  made.addEventListener("click", onClick);
  return made;
}

/** @param {SVGElement} sign @param {string} title @param {(event: MouseEvent) => unknown} onClick */
export function iconButton(sign, title, onClick) {
  const made = button("", title, onClick);
  made.className = "faint icon-button";
  made.title = title;
  made.append(sign);
  return made;
}

// Whatever stands in it, htmx leaves it alone.
/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {string} className
 * @param {...(string | Node)} children
 */
export function inert(tag, className, ...children) {
  const made = element(tag, className, ...children);
  made.setAttribute("hx-ignore", "");
  return made;
}

/** @param {string} title @param {string} className @param {...string | Node} children */
export function folded(title, className, ...children) {
  return element("details", className, element("summary", "", title), ...children);
}

/** @param {string} text */
export function block(text) {
  const made = element("pre", "", text);
  made.tabIndex = 0; // so that the keyboard can scroll it
  return made;
}

// As text, for a header: the page's, or what a log-in in another tab has made of it since.
export class CsrfToken {
  /** @param {HTMLElement} page @param {HTMLFormElement} form */
  constructor(page, form) {
    this.name = page.dataset.csrfCookie;
    this.first = find(form, "[name=csrfmiddlewaretoken]", HTMLInputElement).value;
  }

  toString() {
    const cookie = document.cookie.split("; ").find((each) => each.startsWith(`${this.name}=`));
    return cookie?.slice(cookie.indexOf("=") + 1) ?? this.first;
  }
}

// Whoever goes by keys, and has pressed what goes with this change, goes on in the composer.
/** @param {() => void} change */
export function keepFocus(change) {
  const focused = document.querySelector(".chat :focus-visible");
  change();
  if (focused && !focused.checkVisibility()) byId("chat-input", HTMLElement).focus({ preventScroll: true });
}

/** @param {number} ms */
export const seconds = (ms) => `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
/** @param {number} number */
export const count = (number) => Number(number).toLocaleString("en-GB");
/** @param {number} number @param {string} one @param {string} [several] */
export const plural = (number, one, several = `${one}s`) => `${count(number)} ${number === 1 ? one : several}`;
/** @param {number} bytes */
export const size = (bytes) => (bytes < 2 ** 20 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`);

// @ts-check
// The playground's page: its parts, and which conversation its address names.

import { byId, partsOf } from "../../page/parts.js";

export const page = byId("chat", HTMLElement);
export const $ = partsOf({
  "chat-compare": HTMLAnchorElement,
  "chat-composer": HTMLFormElement,
  "chat-conversations": HTMLElement,
  "chat-empty": HTMLElement,
  "chat-files-menu": HTMLDetailsElement,
  "chat-list": HTMLDetailsElement,
  "chat-name": HTMLInputElement,
  "chat-new": HTMLElement,
  "chat-notice": HTMLElement,
  "chat-older": HTMLElement,
  "chat-params": HTMLDetailsElement,
  "chat-params-form": HTMLFormElement,
  "chat-presets": HTMLElement,
  "chat-search": HTMLInputElement,
  "chat-server": HTMLSelectElement,
  "chat-servers": HTMLElement,
  "chat-share": HTMLDetailsElement,
  "chat-standings": HTMLElement,
  "chat-status": HTMLElement,
  "chat-transcript": HTMLElement,
});

const base = page.dataset.address ?? "";

// "" is a new one.
export function idInAddress() {
  return location.pathname.slice(base.length).replace("/", "");
}

/** @param {string} id @param {boolean} isSame whether it was there before, unnamed */
export function putInAddress(id, isSame) {
  const path = base + (id ? `${id}/` : "");
  if (location.pathname === path) return;
  window.history[isSame ? "replaceState" : "pushState"](null, "", path);
}

// @ts-check
// Says when the page no longer hears from inferdash, because what it shows is then old.

import { byId } from "./parts.js";

const PATIENCE = 1500; // ms; a socket that comes back at once is not worth a word
// Codes after which the socket does not come back by itself.
/** @type {Record<number, string>} */
const GONE = {
  4401: "You are signed out, so this page no longer changes. Reload it to sign in again.",
  4403: "You may no longer see this page, so it no longer changes. An admin can give you a role that may.",
};

const strip = byId("connection", HTMLElement);
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/** @param {string} text */
function show(text) {
  strip.textContent = text;
  strip.hidden = false;
  document.documentElement.classList.add("is-offline");
}

document.addEventListener("htmx:ws:close", (event) => {
  // A hidden tab closes its socket on purpose and opens it again when it is shown.
  if (document.hidden) return;
  clearTimeout(timer);
  const gone = GONE[event.detail.code];
  if (gone) {
    show(gone);
    return;
  }
  timer = setTimeout(() => {
    if (!document.hidden) show("Connection lost, reconnecting. What you see is as of then.");
  }, PATIENCE);
});

document.addEventListener("htmx:ws:after:connection", () => {
  clearTimeout(timer);
  strip.hidden = true;
  document.documentElement.classList.remove("is-offline");
});

// @ts-check
// Says what the page no longer hears: that the connection is gone, values are old, a request came to nothing.

import { all, around, byId } from "./parts.js";
import { complain, toast } from "./toast.js";

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

// Says what became of a button: that its request was refused or never arrived, in an answer of plain text or
// in data-toast what it did, with the address in data-undo that takes it back.
/** @type {Record<number, string>} */
const WORDS = {
  403: "You may not do this. An admin can change your role under Settings.",
  404: "This is gone: somebody removed it. Reload the page.",
};

document.addEventListener("htmx:after:request", async (event) => {
  const { response, text } = event.detail.ctx;
  const button = around(event, "[data-then]", HTMLElement);
  if (response && response.status < 400) {
    // An answer with text is a question, in a dialog of this page.
    if (button?.dataset.then !== undefined && response.status === 204) location.assign(button.dataset.then);
    if (response.status === 200 && response.headers.get("Content-Type")?.startsWith("text/plain")) toast(text ?? "");
    const { toast: done, undo } = around(event, "[data-toast]", HTMLElement)?.dataset ?? {};
    if (!done || response.status !== 204) return;
    toast(done, undo ? { title: "Undo", run: () => htmx.ajax("POST", undo, { swap: "none" }) } : undefined);
    return;
  }
  const type = response?.headers?.get("Content-Type") ?? "";
  const said = type.startsWith("text/plain") ? text : "";
  complain(said || WORDS[response?.status ?? 0] || `inferdash answered with error ${response?.status}. Its log says why; then try again.`);
});

document.addEventListener("htmx:error", (event) => {
  if (event.detail.ctx) complain("inferdash could not be reached, so nothing was done. Is it still running? Then try again.");
});

// Greys a box whose values have stopped coming, and says since when. The socket renews
// data-sampled every second; nothing tells the page that it no longer does.
const LIMIT = 6000; // ms

/** @type {Map<HTMLElement, {sampled: string | undefined, at: number}>} */
const seen = new Map();

function look() {
  for (const box of all(document, "[data-sampled]", HTMLElement)) {
    const sampled = box.dataset.sampled;
    const last = seen.get(box);
    if (!last || last.sampled !== sampled) {
      seen.set(box, { sampled, at: performance.now() });
      continue;
    }
    const silence = performance.now() - last.at;
    /** @type {HTMLElement | null} */
    const note = box.querySelector("[data-silence]");
    // The watcher itself may already say why the values are old.
    if (!note || note.dataset.silence === "told" || document.hidden) continue;
    note.hidden = !sampled || silence < LIMIT;
    if (!note.hidden) {
      note.textContent = `No new values for ${Math.floor(silence / 1000)} s.`;
      box.classList.add("is-stale");
    }
  }
  for (const box of seen.keys()) if (!box.isConnected) seen.delete(box);
}

setInterval(look, 1000);
document.addEventListener("visibilitychange", () => seen.clear());

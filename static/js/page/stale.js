// @ts-check
// Greys a box whose values have stopped coming, and says since when. The socket renews
// data-sampled every second; nothing tells the page that it no longer does.

import { all } from "./parts.js";

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

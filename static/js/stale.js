// Greys a box whose values have stopped coming, and says since when. The socket renews
// data-sampled every second; nothing tells the page that it no longer does.

const LIMIT = 6000; // ms

const seen = new Map(); // element → { sampled, at }

function look() {
  for (const box of document.querySelectorAll("[data-sampled]")) {
    const sampled = box.dataset.sampled;
    const last = seen.get(box);
    if (last?.sampled !== sampled) {
      seen.set(box, { sampled, at: performance.now() });
      continue;
    }
    const silence = performance.now() - last.at;
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

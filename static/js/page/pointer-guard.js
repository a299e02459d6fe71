// @ts-check
// What a page does of itself waits while the pointer is down: a line less or more would move the
// button that is just being pressed.

const PAUSE = 200; // ms: a touch is followed by its click only after a while

let isPressed = false;
document.addEventListener("pointerdown", () => (isPressed = true), true);
for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, () => (isPressed = false), true);

/** @param {() => void} work */
export function whenReleased(work) {
  if (!isPressed) {
    work();
    return;
  }
  const released = new AbortController();
  for (const name of ["pointerup", "pointercancel"]) {
    document.addEventListener(name, () => (released.abort(), setTimeout(work, PAUSE)), { signal: released.signal });
  }
}

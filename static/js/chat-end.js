// Keeps the end of a conversation in sight while one is there.

const NEAR = 80; // px from the end within which the page follows the answer

export class End {
  constructor(transcript) {
    window.addEventListener("scroll", () => (this.isNear = isNear()), { passive: true });
    // What has just been opened grows, as its parts are drawn, until somebody takes hold of it.
    new ResizeObserver(() => this.isSettling && this.follow(true)).observe(transcript);
    for (const sign of ["wheel", "pointerdown", "keydown", "touchstart"]) {
      window.addEventListener(sign, () => (this.isSettling = false), { passive: true, capture: true });
    }
  }

  settle() {
    this.isSettling = true;
    this.follow(true);
  }

  follow(always = false) {
    if (always) this.isNear = true;
    if (this.isNear) window.scrollTo({ top: document.documentElement.scrollHeight });
  }
}

function isNear() {
  const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
  return scrollHeight - clientHeight - scrollTop < NEAR;
}

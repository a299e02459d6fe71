// @ts-check
// Keeps the end of a conversation in sight while one is there, and offers the way back.

const NEAR = 80; // px from the end within which the page follows the answer

export class End {
  top = 0; // where the page was
  isNear = false;
  isSettling = false;

  /** @param {HTMLElement} transcript @param {HTMLElement} newest a button that leads there */
  constructor(transcript, newest) {
    this.newest = newest;
    this.transcript = transcript;
    newest.addEventListener("click", () => {
      this.settle();
      this.offer();
    });
    window.addEventListener("scroll", () => this.scrolled(), { passive: true });
    // What has just been opened grows, as its parts are drawn, until somebody takes hold of it.
    this.observer = new ResizeObserver(() => {
      if (this.isSettling) this.follow(true);
      this.offer();
    });
    this.observer.observe(transcript);
    for (const sign of ["wheel", "pointerdown", "keydown", "touchstart"]) {
      window.addEventListener(sign, () => (this.isSettling = false), { passive: true, capture: true });
    }
  }

  // By somebody, or by follow(): of that it is told only when more may have come meanwhile.
  scrolled() {
    const { scrollTop } = document.documentElement;
    if (isNear()) this.isNear = true;
    else if (scrollTop < this.top) this.isNear = false;
    this.top = scrollTop;
    this.offer();
  }

  // The way back, where somebody has left the end.
  offer() {
    this.newest.hidden = this.isNear || isNear() || !this.transcript.querySelector(".message");
  }

  settle() {
    this.isSettling = true;
    this.follow(true);
    // What is drawn anew may end as high as it was: that is heard of only by who begins to observe.
    this.observer.unobserve(this.transcript);
    this.observer.observe(this.transcript);
  }

  // What was out of sight has its real height only once it is drawn, which is after this.
  rest() {
    if (this.isNear) this.settle();
  }

  /** @param {boolean} [always] */
  follow(always = false) {
    if (always) this.isNear = true;
    if (this.isNear) window.scrollTo({ top: document.documentElement.scrollHeight });
  }
}

function isNear() {
  const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
  return scrollHeight - clientHeight - scrollTop < NEAR;
}

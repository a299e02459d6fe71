// @ts-check
// The messages of one conversation in the page: the last ones at once, those before them when there
// is time, so that a long conversation opens as fast as a short one. Its end is kept in sight.

const FIRST = 24; // messages that fill any window
const AT_ONCE = 12;

export class Transcript {
  /** @param {HTMLElement} root @param {(message: Chat.Message) => Chat.View} make */
  constructor(root, make) {
    this.root = root;
    this.make = make;
    /** @type {Map<Chat.Message, Chat.View>} */
    this.views = new Map();
    /** @type {Chat.Message[]} */
    this.shown = [];
    this.from = 0;
  }

  /** @param {Chat.Message[]} messages */
  show(messages) {
    this.views.clear();
    this.shown = messages;
    this.from = Math.max(0, messages.length - FIRST);
    this.root.replaceChildren(...messages.slice(this.from).map((message) => this.view(message).root));
    this.later(messages);
  }

  /** @param {Chat.Message[]} messages */
  later(messages) {
    if (this.from === 0) return;
    const idle = window.requestIdleCallback ?? ((/** @type {() => void} */ work) => setTimeout(work, 30));
    idle(() => {
      if (this.shown !== messages || this.from === 0) return;
      this.earlier();
      this.later(messages);
    });
  }

  earlier() {
    const from = Math.max(0, this.from - AT_ONCE);
    const roots = this.shown.slice(from, this.from).map((message) => this.view(message).root);
    const page = document.documentElement;
    const before = page.scrollHeight - page.scrollTop;
    this.root.prepend(...roots);
    // What is looked at stays where it is.
    page.scrollTop = page.scrollHeight - before;
    this.from = from;
  }

  /** @param {Chat.Message} message */
  append(message) {
    this.root.append(this.view(message).root);
  }

  // Everything after this many messages goes.
  /** @param {number} count */
  cut(count) {
    for (const [message, view] of [...this.views]) {
      const at = this.shown.indexOf(message);
      if (at >= 0 && at < count) continue;
      view.root.remove();
      this.views.delete(message);
    }
  }

  // From here on the messages are others.
  /** @param {number} from */
  redraw(from) {
    this.cut(from);
    for (const message of this.shown.slice(from)) this.append(message);
  }

  /** @param {Chat.Message} message */
  view(message) {
    const view = this.make(message);
    this.views.set(message, view);
    return view;
  }

  /** @param {Chat.Message} message */
  get(message) {
    return this.views.get(message);
  }
}

// Keeps the end of a conversation in sight while one is there.
const NEAR = 80; // px from the end within which the page follows the answer

export class End {
  top = 0; // where the page was
  isNear = false;
  isSettling = false;

  /** @param {HTMLElement} transcript @param {HTMLElement} newest a button that leads there */
  constructor(transcript, newest) {
    this.newest = newest;
    newest.addEventListener("click", () => {
      this.settle();
      this.offer();
    });
    window.addEventListener("scroll", () => this.scrolled(), { passive: true });
    // What has just been opened grows, as its parts are drawn, until somebody takes hold of it.
    this.transcript = transcript;
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
    this.newest.hidden = this.isNear || isNear();
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

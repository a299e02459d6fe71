// @ts-check
// The messages of one conversation in the page: the last ones at once, those before them when there
// is time, so that a long conversation opens as fast as a short one.

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

// @ts-check
// The answers that are arriving in the columns of a comparison.

import { CUT_OFF } from "../chat/store.js";

/** @import { Store } from "../chat/store.js" */
/** @import { Column, Talk } from "./column.js" */
/** @import { Turn } from "./turns.js" */

// Events: "change" when a column begins or ends.
/** @typedef {[column: Column, message: Chat.Answer]} Pair */

export class Asking extends EventTarget {
  isLeaving = false;
  /** By column. @type {Map<Column, Chat.Answer>} */
  running = new Map();

  /** @param {{url: string, csrf: {toString(): string}, store: Store}} parts */
  constructor({ url, csrf, store }) {
    super();
    this.url = url;
    this.csrf = csrf;
    this.store = store;
    // Comes before the answers' connections are cut. A download link fires it too, and stays.
    window.addEventListener("beforeunload", () => {
      this.isLeaving = true;
      setTimeout(() => (this.isLeaving = false), 2000);
    });
  }

  get isBusy() {
    return this.running.size > 0;
  }

  // `inTurn`: each when the one before is done.
  /** @param {Talk} talk @param {Turn<Column>} turn @param {Pair[]} answers @param {boolean} inTurn */
  async ask(talk, turn, answers, inTurn) {
    for (const [column, message] of answers) {
      column.controller = new AbortController();
      this.running.set(column, message);
    }
    this.changed();
    /** @type {(pair: Pair) => Promise<void>} */
    const one = ([column, message]) => this.one(talk, turn, column, message);
    if (!inTurn) {
      await Promise.all(answers.map(one));
      return;
    }
    answers.slice(1).forEach(([, message], at) => turn.views.get(message)?.wait?.(`Asked when column ${answers[at]?.[0].title} is done.`));
    for (const each of answers) await one(each);
  }

  /** @param {Talk} talk @param {Turn<Column>} turn @param {Column} column @param {Chat.Answer} message */
  async one(talk, turn, column, message) {
    if (column.controller?.signal.aborted) Object.assign(message, { running: false, stopped: true });
    else {
      await column.ask(message, {
        url: this.url, csrf: this.csrf, talk, turn,
        keep: () => this.store.save(column.conversation, message),
        isLeaving: () => this.isLeaving,
      });
    }
    column.controller = null;
    this.running.delete(column);
    turn.draw(column);
    this.store.save(column.conversation);
    this.changed();
  }

  stop() {
    for (const { controller } of this.running.keys()) controller?.abort();
  }

  // The page goes, and its answers with it: what has come is kept with the reason.
  leave() {
    for (const message of this.running.values()) {
      message.running = false;
      message.error ??= CUT_OFF;
    }
    this.store.leave(...[...this.running.keys()].map(({ conversation }) => conversation));
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }
}

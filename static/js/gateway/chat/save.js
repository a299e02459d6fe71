// @ts-check
// Keeps one conversation on the server: sends what has changed, one request at a time, and lets go
// of nothing before the server has said that it has it.

import { newKey } from "./key.js";
import { leafOf } from "./versions.js";

const BATCH = 2_500_000; // characters: three bytes each at most, and 8 MiB is inferdash's limit
const BEACON = 60_000; // bytes that browsers still send when a page is left: 64 KiB less its head
const LONGEST = 30_000; // ms between two tries

/**
 * What a request says: the messages are places with their JSON.
 * @typedef {{revision: string, around: string, count: number, messages: [place: number, text: string][], text: string}} Body
 * @typedef {(id: string, text: string) => Promise<Chat.Outcome>} Post
 */

export class Saving {
  /** @type {Promise<Chat.Outcome> | null} */
  sending = null;

  // `seen` are the revisions that the server may have; `stored` the messages that it has, as JSON.
  /** @param {Chat.Conversation} conversation @param {{post: Post, seen?: string[], stored?: string[]}} how */
  constructor(conversation, { post, seen = [], stored = [] }) {
    this.conversation = conversation;
    this.post = post;
    this.seen = seen;
    this.stored = stored;
    this.around = seen.length ? aroundOf(conversation) : "";
    /** Messages that have changed. @type {Set<Chat.Message>} */
    this.some = new Set();
    this.all = false; // any may have
    this.isDirty = false;
    this.pause = 0;
  }

  get isBusy() {
    return this.isDirty || this.sending !== null;
  }

  // Something has changed: in this message, or anywhere.
  /** @param {Chat.Message} [message] */
  mark(message) {
    if (message) this.some.add(message);
    else this.all = true;
    this.isDirty = true;
  }

  // The conversation is another one from here on: nothing of it is on the server.
  renew() {
    this.conversation.id = newKey();
    this.seen = [];
    this.stored = [];
    this.around = "";
    this.all = this.isDirty = true;
  }

  // Resolves with what came of it: "kept", "changed" (another tab has saved it since), "refused".
  // `said` hears of tries that failed.
  /** @param {(words: string) => void} said */
  keep(said) {
    this.sending ??= this.loop(said).finally(() => (this.sending = null));
    return this.sending;
  }

  /** @param {(words: string) => void} said @returns {Promise<Chat.Outcome>} */
  async loop(said) {
    while (this.isDirty) {
      /** @returns {Body | null} */
      const body = this.body();
      if (!body) break;
      const outcome = await this.post(this.conversation.id, body.text);
      if (outcome.status === "kept") {
        this.pause = 0;
        this.took(body);
        if (outcome.updated) this.conversation.updated = outcome.updated; // by the server's clock, as in its list
        continue;
      }
      this.all = this.isDirty = true;
      if (outcome.status !== "away") return outcome;
      said(outcome.message);
      await this.wait();
    }
    this.isDirty = false;
    return { status: "kept" };
  }

  // The server has it.
  /** @param {Pick<Body, "revision" | "around" | "count" | "messages">} body */
  took({ revision, around, count, messages }) {
    this.seen = [revision];
    this.around = around;
    this.stored.length = count;
    for (const [place, text] of messages) this.stored[place] = text;
  }

  // Until the next try: a while, or what may have changed the matter.
  async wait() {
    this.pause = Math.min(LONGEST, this.pause * 2 || 1000);
    const { pause } = this;
    /** @type {Promise<void>} */
    const over = new Promise((resolve) => {
      const timer = setTimeout(resolve, pause);
      window.addEventListener("online", () => (clearTimeout(timer), resolve()), { once: true });
    });
    await over;
  }

  // What the next request says; null when the server has it all.
  body() {
    const { conversation, stored } = this;
    /** @type {[place: number, text: string][]} */
    const messages = [];
    let size = 0;
    let isWhole = true;
    for (const [place, message] of conversation.every.entries()) {
      if (!this.all && !this.some.has(message) && place < stored.length) continue;
      const text = JSON.stringify(message);
      if (text === stored[place]) continue;
      if (size && size + text.length > BATCH) {
        isWhole = false;
        break;
      }
      messages.push([place, text]);
      size += text.length;
    }
    const around = aroundOf(conversation);
    const total = conversation.every.length;
    const last = messages.at(-1)?.[0] ?? 0;
    const count = isWhole ? total : Math.max(Math.min(stored.length, total), last + 1);
    if (isWhole) {
      this.isDirty = this.all = false;
      this.some.clear();
    }
    if (!total && !this.seen.length) return null;
    if (!messages.length && count === stored.length && around === this.around) return null;
    const was = JSON.stringify(this.seen);
    const revision = newKey();
    this.seen = [...this.seen, revision]; // its answer may be lost
    const said = messages.map(([place, text]) => `"${place}":${text}`).join(",");
    const at = conversation.since ? `,"updated":${conversation.since}` : "";
    return {
      revision, around, count, messages,
      text: `{"was":${was},"revision":"${revision}","count":${count}${at},${around.slice(1, -1)},"messages":{${said}}}`,
    };
  }

  // The page is being left: what may be sent yet as a whole, else null.
  farewell() {
    this.all = true;
    const body = this.body();
    this.isDirty = true;
    return body && new Blob([body.text]).size < BEACON ? body.text : null;
  }
}

/** @param {Chat.Conversation} conversation */
function aroundOf({ name, server, comparison, column, params, tools, schema, ...said }) {
  return JSON.stringify({
    name, server, comparison: comparison ?? "", column: column ?? 0, params: params ?? {}, tools: tools ?? null, schema: schema ?? null,
    leaf: leafOf(said),
  });
}

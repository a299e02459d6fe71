// @ts-check
// Conversations, kept by the server: theirs alone who had them. What cannot be sent now stays in the
// page and, when the page is left, in this browser, and is sent later.

import { PartError, fetchPart } from "../../page/fetch-part.js";
import { newKey } from "./key.js";
import { shown, sizeOf, stored } from "./versions.js";

/** @import { Saving } from "./save.js" */

const ARRIVING = 5; // s since the last save within which another tab is still receiving an answer

export const CUT_OFF = {
  message: "The page was closed, or the conversation deleted, while this answer was arriving. What had arrived is kept. Retry to ask again.",
  detail: "",
};

/** @param {Chat.Answerer} server @returns {Chat.Answer} */
export const newAnswer = (server) => ({
  role: "assistant", server: server.slug, url: server.url, model: server.model,
  content: "", reasoning: "", calls: [], usage: null, chunks: 0, finish: "",
  firstMs: null, spanMs: null, reasonedMs: null, stopped: false, error: null, running: true,
});

/** @param {string} text @param {Chat.Attached[]} attached @returns {Chat.Question} */
export function newQuestion(text, attached) {
  const images = attached.filter((each) => "url" in each);
  const files = attached.filter((each) => "text" in each);
  return { role: "user", content: text, ...(images.length ? { images } : {}), ...(files.length ? { files } : {}) };
}

export class AwayError extends Error {}

const AWAY = "inferdash does not answer. What you see is kept in this page, and sent as soon as it does.";
const LOGGED_OUT = "You are logged out, or may no longer chat. Log in in another tab: what you see is kept in this page until then.";

/**
 * What events say. `isSame`: it says nothing new. `copied` is `from` what another tab has changed; null: that was deleted.
 * @typedef {{
 *   kept: {conversation: Chat.Conversation},
 *   away: {conversation: Chat.Conversation, message: string},
 *   refused: {conversation: Chat.Conversation, message: string},
 *   reloaded: {conversation: Chat.Conversation, isSame: boolean},
 *   copied: {conversation: Chat.Conversation, from: string | null},
 *   changed: {id: string},
 * }} Events
 */

export class Store extends EventTarget {
  /** @type {typeof import("./save.js") | null} */
  saver = null;

  /** @param {{user: string, url: string, csrf: {toString(): string}}} where */
  constructor({ user, url, csrf }) {
    super();
    this.url = url;
    this.csrf = csrf;
    this.older = `inferdash.chat.${user}.`; // where conversations were before the server kept them
    this.drafts = `inferdash.draft.${user}.`;
    /** By id. @type {Map<string, Saving>} */
    this.savings = new Map();
    /** Ids: no answer arrives there, a deletion has stopped it. @type {Set<string>} */
    this.restored = new Set();
    this.tabs = new BroadcastChannel(`inferdash.chat.${user}`);
    this.tabs.addEventListener("message", ({ data }) => this.tell("changed", data));
    // What cannot be had now stays where it is; the person was told.
    this.ready = this.recover().catch((error) => {
      if (!(error instanceof PartError)) throw error;
    });
  }

  /** @param {{query?: string, before?: string}} [how] */
  async list({ query = "", before = "" } = {}) {
    /** @type {{conversations: Chat.Row[], before: string}} */
    const found = await this.ask(`?${new URLSearchParams({ q: query, before })}`);
    return { conversations: found.conversations, before: found.before };
  }

  // null: there is none, or it is somebody else's.
  /** @param {string} id */
  async get(id) {
    const known = this.savings.get(id);
    if (known?.isBusy) return known.conversation;
    await this.ready;
    /** @type {Chat.Found | null} */
    const found = await this.ask(`${id}/`);
    if (found === null) return null;
    const { revision, age, count: _count, ...kept } = found;
    /** @type {Chat.Conversation} */
    const conversation = shown(kept);
    const isRestored = this.restored.delete(id);
    conversation.elsewhere = settle(conversation.every, age < ARRIVING && !isRestored, isRestored);
    const texts = conversation.every.map((message) => JSON.stringify(message));
    const { Saving } = await this.load();
    this.savings.set(id, new Saving(conversation, { post: this.post, seen: [revision], stored: texts }));
    return conversation;
  }

  /** @param {string} id */
  isBusy(id) {
    return this.savings.get(id)?.isBusy ?? false;
  }

  // Whether this tab has seen what the server has.
  /** @param {string} id @param {string} revision */
  knows(id, revision) {
    return this.savings.get(id)?.seen.includes(revision) ?? false;
  }

  /**
   * @param {Chat.Params} params
   * @param {string} server
   * @param {Partial<Chat.Beside>} [beside]
   * @returns {Chat.Conversation}
   */
  create(params, server, { tools = null, schema = null } = {}) {
    return { id: newKey(), name: "", params: { ...params }, server, tools, schema, every: [], messages: [], updated: Date.now() };
  }

  // What keeps conversations, once there is something to keep: it is loaded before anything is said.
  async load() {
    this.saver ??= await fetchPart("saves conversations", () => import("./save.js"));
    return this.saver;
  }

  // Keep what has changed: in this message alone, or anywhere.
  /** @param {Chat.Conversation} conversation @param {Chat.Message} [message] */
  async save(conversation, message) {
    conversation.updated = Date.now();
    let saving = this.savings.get(conversation.id);
    if (!saving) {
      const { Saving } = this.saver ?? (await this.load());
      this.savings.set(conversation.id, (saving = new Saving(conversation, { post: this.post })));
    }
    saving.conversation = conversation;
    saving.mark(message);
    await this.send(saving);
  }

  /** @param {Saving} saving */
  async send(saving) {
    if (saving.sending) return;
    const { conversation } = saving;
    const before = conversation.id;
    const { status, message = "" } = await saving.keep((words) => {
      this.keepDraft(saving);
      this.tell("away", { conversation, message: words });
    });
    if (status === "changed") {
      await this.reconcile(saving);
    } else if (status === "refused") {
      this.tell("refused", { conversation, message });
    } else {
      this.dropDraft(before);
      this.tabs.postMessage({ id: conversation.id });
      this.tell("kept", { conversation });
    }
    if (saving.isDirty && status !== "refused") await this.send(saving);
  }

  // Another tab has saved the conversation since this one saw it, or deleted it.
  /** @param {Saving} saving */
  async reconcile(saving) {
    const { conversation } = saving;
    const { id } = conversation;
    /** @type {Chat.Found | null} */
    let theirs;
    try {
      theirs = await this.ask(`${id}/`);
    } catch (error) {
      if (!(error instanceof AwayError)) throw error;
      await saving.wait();
      return;
    }
    const mine = conversation.every.map((message) => JSON.stringify(message));
    const isUnchanged = mine.length === saving.stored.length && mine.every((text, at) => text === saving.stored[at]);
    const isSame = theirs !== null && canonical(byKey(theirs.messages)) === canonical(byKey(conversation.every));
    // An answer that goes on in the server is the same in all tabs: the one that has more of it keeps it.
    if (theirs && isSame && hasMore(conversation.every, theirs.messages)) {
      saving.seen = [theirs.revision];
      saving.stored = theirs.messages.map((message) => JSON.stringify(message));
      saving.mark();
      return;
    }
    if (theirs && (isUnchanged || isSame || canonical(theirs.messages) === canonical(conversation.every))) {
      settle(theirs.messages, false);
      const { every, messages } = shown(theirs);
      conversation.every.splice(0, Infinity, ...every);
      conversation.messages.splice(0, Infinity, ...messages);
      saving.seen = [theirs.revision];
      saving.stored = every.map((message) => JSON.stringify(message));
      this.tell("reloaded", { conversation, isSame: isSame && !isUnchanged });
      return;
    }
    this.savings.delete(id);
    this.dropDraft(id);
    saving.renew();
    conversation.comparison = ""; // the other tab's has its columns
    if (theirs) conversation.name = `${titleOf(conversation)} (from another tab)`.slice(0, 80);
    this.savings.set(conversation.id, saving);
    this.tell("copied", { conversation, from: theirs ? id : null });
  }

  /** @param {string} id */
  async remove(id) {
    const saving = this.savings.get(id);
    this.savings.delete(id);
    this.dropDraft(id);
    if (saving?.seen.length === 0) return; // it was never kept
    if (saving) saving.isDirty = false;
    await this.ask(`${id}/delete/`, { method: "POST" });
    this.tabs.postMessage({ id });
  }

  /** @param {string} id */
  async restore(id) {
    this.restored.add(id);
    await this.ask(`${id}/restore/`, { method: "POST" });
    this.tabs.postMessage({ id });
  }

  /** @template {keyof Events} N @param {N} name @param {(detail: Events[N]) => void} hear */
  on(name, hear) {
    this.addEventListener(name, (event) => event instanceof CustomEvent && hear(event.detail));
  }

  /** @template {keyof Events} N @param {N} name @param {Events[N]} detail */
  tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  // What the server says as JSON; null for what it has not. Throws AwayError.
  /** @param {string} path @param {RequestInit} [how] */
  async ask(path, { method = "GET", ...more } = {}) {
    let response;
    try {
      response = await fetch(this.url + path, { method, headers: { "X-CSRFToken": String(this.csrf) }, ...more });
    } catch (error) {
      throw new AwayError(AWAY, { cause: error });
    }
    if (response.redirected || response.status === 403) throw new AwayError(LOGGED_OUT);
    if (response.status === 404) return null;
    if (!response.ok) throw new AwayError(`inferdash could not take this (${response.status}). Reload the page, then try again.`);
    return response.status === 204 ? null : response.json();
  }

  /** @type {import("./save.js").Post} */
  post = async (id, text) => {
    const headers = { "X-CSRFToken": String(this.csrf), "Content-Type": "application/json" };
    let response;
    try {
      response = await fetch(`${this.url}${id}/`, { method: "POST", headers, body: text });
    } catch {
      return { status: "away", message: AWAY };
    }
    if (response.redirected || response.status === 403) return { status: "away", message: LOGGED_OUT };
    if (response.ok) return { status: "kept", updated: (await response.json()).updated };
    if (response.status === 409) return { status: "changed" };
    if (response.status >= 500) return { status: "away", message: AWAY };
    const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
    const message = isJson ? (await response.json()).message : (await response.text()).slice(0, 200);
    return { status: "refused", message };
  };

  // The page goes: what is short is sent yet, and all of it stays in this browser until a page has
  // sent it.
  /** @param {...Chat.Conversation | undefined} changed */
  leave(...changed) {
    for (const each of changed) this.savings.get(each?.id ?? "")?.mark();
    const headers = { "X-CSRFToken": String(this.csrf), "Content-Type": "application/json" };
    for (const saving of this.savings.values()) {
      if (!saving.isBusy) continue;
      const text = saving.farewell();
      if (text) fetch(`${this.url}${saving.conversation.id}/`, { method: "POST", headers, body: text, keepalive: true }).catch(() => {});
      this.keepDraft(saving, true);
    }
  }

  /** @param {Saving} saving @param {boolean} [left] */
  keepDraft({ conversation, seen }, left = false) {
    if (!conversation.messages.length) return;
    try {
      localStorage.setItem(this.drafts + conversation.id, JSON.stringify({ at: Date.now(), left, seen, conversation: stored(conversation) }));
    } catch {
      // Full, or too large: it is in the page alone, which the notice says.
    }
  }

  /** @param {string} id */
  dropDraft(id) {
    localStorage.removeItem(this.drafts + id);
  }

  // What earlier pages could not send, and what this browser kept before the server did, where there is any.
  async recover() {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(this.drafts) || key.startsWith(this.older));
    if (!keys.length) return;
    const { recover } = await fetchPart("sends what was not sent", () => import("./recover.js"));
    await recover(this, keys);
  }
}

// Whether an answer goes on in the server.
/** @param {Chat.Message | undefined} message @returns {message is Chat.Answer} */
export const isArriving = (message) => message?.role === "assistant" && message.running && Boolean(message.key);

// What is said, with an answer that went on in the server as its key: pages measure it differently.
/** @param {Chat.Message[]} messages */
const byKey = (messages) =>
  messages.map((message) => (message.role === "assistant" && message.key ? { key: message.key, parent: message.parent } : message));

// Of two that say the same, whether this page has more of the answers that went on in the server;
// while they still arrive, also where it has as much.
/** @param {Chat.Message[]} mine @param {Chat.Message[]} theirs */
function hasMore(mine, theirs) {
  const pairs = mine.flatMap((one, at) => {
    const other = theirs[at];
    return one.role === "assistant" && one.key && other?.role === "assistant" ? [{ one, other }] : [];
  });
  if (pairs.some(({ one, other }) => isAhead(one, other))) return true;
  const isBehind = pairs.some(({ one, other }) => !other.running && isAhead(other, one));
  return !isBehind && pairs.some(({ one, other }) => one.running || other.running);
}

/** @param {Chat.Answer} one @param {Chat.Answer} other */
function isAhead(one, other) {
  const more = sizeOf(one) - sizeOf(other);
  return more > 0 || (more === 0 && !one.running && other.running);
}

// Answers that nobody receives any more were cut off, but for those that go on in the server, as
// long as it has them. Whether one is arriving in another tab.
/** @param {Chat.Message[]} messages @param {boolean} isElsewhere @param {boolean} [isErased] */
export function settle(messages, isElsewhere, isErased = false) {
  let found = false;
  for (const message of messages) {
    if (!("running" in message) || !message.running) continue;
    if (isArriving(message) && !isErased) continue;
    message.running = false;
    found = isElsewhere;
    if (!isElsewhere) message.error ??= CUT_OFF;
  }
  return found;
}

// The same text for the same value: databases keep the keys of an object in their own order.
/** @param {unknown} value */
function canonical(value) {
  return JSON.stringify(value, (/** @type {string} */ _key, /** @type {unknown} */ held) =>
    held && typeof held === "object" && !Array.isArray(held)
      ? Object.fromEntries(Object.entries(held).sort(([one], [other]) => (one < other ? -1 : 1)))
      : held,
  );
}

/** @param {{content?: string | {text?: string}[]}} message */
export function wordsOf(message) {
  const { content } = message;
  if (!Array.isArray(content)) return content ?? "";
  return content.map((part) => part.text ?? "").filter(Boolean).join("\n");
}

/** @param {Partial<Pick<Chat.Conversation, "messages" | "name" | "title">>} conversation */
export function titleOf(conversation) {
  const first = conversation.messages?.find((message) => message.role === "user");
  const said = first ? shorten(wordsOf(first).trim().split("\n")[0] ?? "") : "";
  return conversation.name || said || conversation.title || "New conversation";
}

const TITLE = 60; // characters, as the server's title_of has it

// Up to a word's end where one is near, and with an ellipsis.
/** @param {string} line */
function shorten(line) {
  const characters = [...line];
  if (characters.length <= TITLE) return line;
  const kept = characters.slice(0, TITLE - 1);
  const end = kept.lastIndexOf(" ");
  return `${kept.slice(0, end >= TITLE / 2 ? end : undefined).join("").trimEnd()}…`;
}

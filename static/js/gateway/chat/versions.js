// @ts-check
// Versions of what was said. A conversation has `every` message that there ever was, in the order in
// which they came, and `messages`, the path through them that is shown. A message follows its
// `parent`, a place in `every`; one without follows the message before it, and -1 is none.

import { button, element } from "../../page/dom.js";

/**
 * @typedef {{
 *   conversation: Chat.Conversation,
 *   running: {conversation: Chat.Conversation} | null,
 *   transcript: {redraw(from: number): void, get(message: Chat.Message): Chat.View | undefined},
 *   notice(text: string): void,
 *   save(): void,
 *   refresh(): void,
 * }} Page
 */

/** @param {Chat.Message[]} every @param {number} at */
const parentAt = (every, at) => every[at]?.parent ?? at - 1;

/** @param {Chat.Message[]} every @param {number} leaf */
function path(every, leaf) {
  /** @type {Chat.Message[]} */
  const found = [];
  for (let at = leaf; at >= 0; at = parentAt(every, at)) {
    const message = every[at];
    if (message) found.push(message);
  }
  return found.reverse();
}

// How much has come of an answer.
/** @param {Chat.Answer} answer */
export const sizeOf = ({ content, reasoning, calls }) => content.length + reasoning.length + JSON.stringify(calls).length;

// As it is kept, {messages, leaf}, from what the page has; and the other way round.
/** @param {Chat.Conversation} conversation @returns {Chat.Kept} */
export function stored({ every, messages, ...rest }) {
  return { ...rest, messages: every, leaf: leafOf({ every, messages }) };
}

/** @template {Chat.Kept} T @param {T} kept */
export function shown({ messages: every, leaf, ...rest }) {
  return { ...rest, every, messages: path(every, Math.min(leaf ?? Infinity, every.length - 1)) };
}

/** @param {Pick<Chat.Conversation, "every" | "messages">} conversation */
export const leafOf = ({ every, messages }) => {
  const last = messages.at(-1);
  return last ? every.indexOf(last) : null;
};

// Put a message behind what is shown: beside what followed there before.
/** @param {Pick<Chat.Conversation, "every" | "messages">} conversation @param {Chat.Message} message */
export function follow({ every, messages }, message) {
  const parent = leafOf({ every, messages }) ?? -1;
  if (parent !== every.length - 1) message.parent = parent;
  every.push(message);
  messages.push(message);
}

// Let a conversation, of which nothing is kept yet, begin with copies of these.
/** @param {Chat.Conversation} conversation @param {Chat.Message[]} messages */
export function begin(conversation, messages) {
  conversation.every = messages.map((message) => {
    const { parent: _parent, ...copy } = structuredClone(message);
    return copy;
  });
  conversation.messages = [...conversation.every];
}

// An answer in which nothing has come is no version of anything.
/** @param {Pick<Chat.Conversation, "every" | "messages">} conversation @param {Chat.Answer} answer */
export function forgetEmpty({ every, messages }, answer) {
  const isEmpty = !answer.content && !answer.reasoning && !answer.calls.length;
  if (!isEmpty || every.at(-1) !== answer) return;
  every.pop();
  if (messages.at(-1) === answer) messages.pop();
}

// All that follows the same message as this one does, itself included.
/** @param {Chat.Message[]} every @param {Chat.Message} message */
function beside(every, message) {
  const parent = parentAt(every, every.indexOf(message));
  return every.filter((_each, at) => parentAt(every, at) === parent);
}

// Let the page show another version of this message, with the newest of what followed it.
/** @param {Page} page @param {Chat.Message} message @param {1 | -1} step */
export function turn(page, message, step) {
  const { conversation, transcript } = page;
  if (page.running?.conversation === conversation || conversation.elsewhere) {
    page.notice("An answer is arriving. Stop it first.");
    return;
  }
  const at = conversation.messages.indexOf(message);
  const next = change(conversation, message, step);
  transcript.redraw(at);
  /** @type {HTMLElement | null | undefined} */
  const way = transcript.get(next)?.root.querySelector(".versions button:not(:disabled)");
  way?.focus();
  page.save();
  page.refresh();
}

// The other version, which is on the path now.
/**
 * @param {Pick<Chat.Conversation, "every" | "messages">} conversation
 * @param {Chat.Message} message
 * @param {1 | -1} step
 * @returns {Chat.Message}
 */
export function change({ every, messages }, message, step) {
  const versions = beside(every, message);
  const next = versions[versions.indexOf(message) + step] ?? message;
  const at = messages.indexOf(message);
  messages.splice(at, Infinity, ...pathBy(every, next).slice(at));
  return next;
}

// Up to the newest message that has come of this one.
/** @param {Chat.Message[]} every @param {Chat.Message} message */
function pathBy(every, message) {
  const newest = new Map(every.map((_each, at) => [parentAt(every, at), at]));
  let leaf = every.indexOf(message);
  for (let next = newest.get(leaf); next !== undefined; next = newest.get(leaf)) leaf = next;
  return path(every, leaf);
}

// ‹ 2 of 3 ›, in a list, for a message that has others beside it; `go` is told the step.
/**
 * @param {Pick<Chat.Conversation, "every">} conversation
 * @param {Chat.Message} message
 * @param {(step: 1 | -1) => void} go
 */
export function versionsView({ every }, message, go) {
  const versions = beside(every, message);
  if (versions.length < 2) return [];
  const at = versions.indexOf(message);
  const back = button("‹", "Version before", () => go(-1));
  const on = button("›", "Next version", () => go(1));
  back.disabled = at === 0;
  on.disabled = at === versions.length - 1;
  const view = element("span", "versions", back, element("span", "", `${at + 1} of ${versions.length}`), on);
  view.setAttribute("role", "group");
  view.setAttribute("aria-label", "Versions");
  return [view];
}

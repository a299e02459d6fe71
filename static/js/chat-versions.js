// Versions of what was said. A conversation has `every` message that there ever was, in the order in
// which they came, and `messages`, the path through them that is shown. A message follows its
// `parent`, a place in `every`; one without follows the message before it, and -1 is none.

import { button, element } from "./chat-dom.js";

const parentAt = (every, at) => every[at].parent ?? at - 1;

function path(every, leaf) {
  const found = [];
  for (let at = leaf; at >= 0; at = parentAt(every, at)) found.push(every[at]);
  return found.reverse();
}

// As it is kept, {messages, leaf}, from what the page has; and the other way round.
export function stored({ every, messages, ...rest }) {
  return { ...rest, messages: every, leaf: leafOf({ every, messages }) };
}

export function shown({ messages: every, leaf, ...rest }) {
  return { ...rest, every, messages: path(every, Math.min(leaf ?? Infinity, every.length - 1)) };
}

export const leafOf = ({ every, messages }) => (messages.length ? every.indexOf(messages.at(-1)) : null);

// Put a message behind what is shown: beside what followed there before.
export function follow({ every, messages }, message) {
  const parent = messages.length ? every.indexOf(messages.at(-1)) : -1;
  if (parent !== every.length - 1) message.parent = parent;
  every.push(message);
  messages.push(message);
}

// Let a conversation, of which nothing is kept yet, begin with copies of these.
export function begin(conversation, messages) {
  conversation.every = messages.map(({ parent, ...message }) => structuredClone(message));
  conversation.messages = [...conversation.every];
}

// An answer in which nothing has come is no version of anything.
export function forgetEmpty({ every, messages }, answer) {
  const isEmpty = !answer.content && !answer.reasoning && !answer.calls.length;
  if (!isEmpty || every.at(-1) !== answer) return;
  every.pop();
  if (messages.at(-1) === answer) messages.pop();
}

// All that follows the same message as this one does, itself included.
function beside(every, message) {
  const parent = parentAt(every, every.indexOf(message));
  return every.filter((_each, at) => parentAt(every, at) === parent);
}

// Let the page show another version of this message, with the newest of what followed it.
export function turn(page, message, step) {
  const { conversation, transcript } = page;
  if (page.running?.conversation === conversation || conversation.elsewhere) {
    page.notice("An answer is arriving. Stop it first.");
    return;
  }
  const at = conversation.messages.indexOf(message);
  const next = change(conversation, message, step);
  transcript.redraw(at);
  transcript.get(next).root.querySelector(".versions button:not(:disabled)")?.focus();
  page.save();
  page.refresh();
}

// The other version, which is on the path now.
export function change({ every, messages }, message, step) {
  const versions = beside(every, message);
  const next = versions[versions.indexOf(message) + step];
  const at = messages.indexOf(message);
  messages.splice(at, Infinity, ...pathBy(every, next).slice(at));
  return next;
}

// Up to the newest message that has come of this one.
function pathBy(every, message) {
  const newest = new Map(every.map((_each, at) => [parentAt(every, at), at]));
  let leaf = every.indexOf(message);
  while (newest.has(leaf)) leaf = newest.get(leaf);
  return path(every, leaf);
}

// ‹ 2 of 3 ›, in a list, for a message that has others beside it; `go` is told the step.
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

// @ts-check
// The way from one version of a message to another.

import { button, element } from "../../page/dom.js";
import { parentAt, path } from "./versions.js";

/**
 * @typedef {{
 *   conversation: Chat.Conversation,
 *   running: {conversation: Chat.Conversation} | null,
 *   transcript: {redraw(from: number): void, get(message: Chat.Message): Chat.View | undefined} | null,
 *   notice(text: string): void,
 *   save(): void,
 *   refresh(): void,
 * }} Page
 */

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
  transcript?.redraw(at);
  /** @type {HTMLElement | null | undefined} */
  const way = transcript?.get(next)?.root.querySelector(".versions button:not(:disabled)");
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

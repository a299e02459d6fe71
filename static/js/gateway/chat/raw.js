// @ts-check
// What went over the wire for an answer: the request, and the stream as it came.

import { copyButton } from "../../page/clipboard.js";
import { block, count, element, folded } from "../../page/dom.js";

const HEAD = 64 * 1024; // characters of a stream that are kept of its beginning
const TAIL = 64 * 1024; // and of its end

// Kept while the page is open, and no longer: a conversation would else be mostly this.
/** @type {WeakMap<Chat.Answer, {head: string, tail: string, left: number}>} */
const streams = new WeakMap();

/** @param {Chat.Answer} answer @param {string} text */
export function keep(answer, text) {
  const held = streams.get(answer) ?? { head: "", tail: "", left: 0 };
  streams.set(answer, held);
  if (held.head.length < HEAD) {
    held.head += text;
    return;
  }
  held.tail += text;
  if (held.tail.length > 2 * TAIL) {
    held.left += held.tail.length - TAIL;
    held.tail = held.tail.slice(-TAIL);
  }
}

// It comes anew.
/** @param {Chat.Answer} answer */
export const drop = (answer) => streams.delete(answer);

/** @param {Chat.Answer} answer */
function streamText(answer) {
  const held = streams.get(answer);
  if (!held) return "";
  const gap = held.left ? `\n… ${count(held.left)} characters are left out here …\n\n` : "";
  return held.head + gap + held.tail;
}

// The whole body, with the messages that it was asked with.
/** @param {Chat.Answer} answer @param {Chat.Told[]} messages */
const body = (answer, messages) => ({ ...answer.request, messages });

const SHOWN = 300; // characters of a picture's address

// Pictures are long and say nothing as text.
/** @param {string} _name @param {unknown} value */
const shortened = (_name, value) =>
  typeof value === "string" && value.startsWith("data:image/") && value.length > SHOWN
    ? `${value.slice(0, 60)}… (${count(value.length)} characters)`
    : value;

// In single quotes for a shell, whatever stands in it.
/** @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** @param {string} address @param {unknown} request */
export function curl(address, request) {
  return [
    `curl -N ${quoted(address)} \\`,
    "  -H 'Content-Type: application/json' \\",
    '  -H "Authorization: Bearer $INFERDASH_API_KEY" \\',
    `  -d ${quoted(JSON.stringify(request))}`,
  ].join("\n");
}

/** @param {Chat.Answer} answer @param {Chat.Told[]} messages */
export function rawView(answer, messages) {
  const request = body(answer, messages);
  const stream = streamText(answer);
  const asCurl = copyButton("Copy as curl", () => curl(`${location.origin}/v1/chat/completions`, request), "Copy as curl");
  return element(
    "div", "raw",
    part("Request", block(JSON.stringify(request, shortened, 2)), copyButton("Copy the request", () => JSON.stringify(request, null, 2)), asCurl),
    stream
      ? part("Stream", block(stream), copyButton("Copy the stream", () => stream))
      : element("p", "note", "The stream is kept while the page is open, and this answer is from before."),
  );
}

/** @param {string} title @param {HTMLElement} shown @param {...HTMLElement} buttons */
const part = (title, shown, ...buttons) =>
  element("section", "raw-part", element("p", "raw-bar", element("strong", "", title), ...buttons), shown);

// Built when it is opened: a long conversation would else hold everything twice.
/** @param {Chat.Answer} answer @param {() => Chat.Told[]} messages */
export function foldedRaw(answer, messages) {
  const view = folded("Raw", "raw-fold");
  view.addEventListener("toggle", () => {
    view.querySelector(".raw")?.remove();
    if (view.open) view.append(rawView(answer, messages()));
  });
  return view;
}

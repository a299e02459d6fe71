// @ts-check
// A conversation or a comparison that somebody has shared, to be read and not touched.

import { settle } from "./store.js";
import { TITLES } from "../compare/titles.js";
import { fetchPart } from "../../page/fetch-part.js";
import { byId, told } from "../../page/parts.js";

const { asked, viewOf } = await fetchPart("shows answers", () => import("./talk.js"));
const { Turn, turnsOf } = await fetchPart("shows answers", () => import("../compare/talk.js"));

/** @type {Chat.Message[][]} */
const columns = told("chat-told");
const transcript = byId("chat-transcript", HTMLElement);
for (const messages of columns) settle(messages, false);

const [only = []] = columns;
if (columns.length > 1) compared();
else alone(only);

/** @param {Chat.Message[]} messages */
function alone(messages) {
  /** @param {Chat.Answer} answer */
  const results = (answer) => {
    const after = messages.slice(messages.indexOf(answer) + 1);
    const end = after.findIndex(({ role }) => role !== "tool");
    return (end < 0 ? after : after.slice(0, end)).filter((each) => each.role === "tool");
  };
  /** @param {Chat.Answer} message */
  const sent = (message) => asked({ messages }, message);
  for (const message of messages) transcript.append(read(viewOf(message, { results, asked: sent }).root));
}

function compared() {
  const shown = columns.map((messages, at) => ({ title: TITLES.charAt(at), conversation: { messages } }));
  const count = Math.max(...shown.map(({ conversation }) => turnsOf(conversation).length));
  for (let at = 0; at < count; at++) transcript.append(read(new Turn(at, shown).root));
}

/** @template {HTMLElement} T @param {T} root */
function read(root) {
  for (const part of root.querySelectorAll("button:not(.harmless), form, .failure-foot")) part.remove();
  return root;
}

// A conversation or a comparison that somebody has shared, to be read and not touched.

import { viewOf } from "./chat-message.js";
import { turnsOf } from "./chat-request.js";
import { settle } from "./chat-store.js";
import { TITLES, Turn } from "./compare-turns.js";

const columns = JSON.parse(document.getElementById("chat-told").textContent);
const transcript = document.getElementById("chat-transcript");
for (const messages of columns) settle(messages, false);

if (columns.length > 1) compared();
else told(columns[0]);

function told(messages) {
  const results = (answer) => {
    const after = messages.slice(messages.indexOf(answer) + 1);
    const end = after.findIndex(({ role }) => role !== "tool");
    return end < 0 ? after : after.slice(0, end);
  };
  const asked = (message) => messages.slice(0, messages.indexOf(message));
  for (const message of messages) transcript.append(read(viewOf(message, { results, asked }).root));
}

function compared() {
  const shown = columns.map((messages, at) => ({ title: TITLES[at], conversation: { messages } }));
  const count = Math.max(...shown.map(({ conversation }) => turnsOf(conversation).length));
  for (let at = 0; at < count; at++) transcript.append(read(new Turn(at, shown).root));
}

function read(root) {
  for (const part of root.querySelectorAll("button:not(.copy), form, .failure-foot")) part.remove();
  return root;
}

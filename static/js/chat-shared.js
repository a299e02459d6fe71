// A conversation that somebody has shared, to be read and not touched.

import { viewOf } from "./chat-message.js";
import { settle } from "./chat-store.js";

const { messages } = JSON.parse(document.getElementById("chat-told").textContent);
settle(messages, false);

const results = (answer) => {
  const after = messages.slice(messages.indexOf(answer) + 1);
  const end = after.findIndex(({ role }) => role !== "tool");
  return end < 0 ? after : after.slice(0, end);
};
const asked = (message) => messages.slice(0, messages.indexOf(message));

for (const message of messages) {
  const { root } = viewOf(message, { results, asked });
  for (const part of root.querySelectorAll("button:not(.copy), form, .failure-foot")) part.remove();
  document.getElementById("chat-transcript").append(root);
}

// @ts-check
// What the engine is told of a conversation.

import { idOf } from "./calls.js";
import { parts } from "./pictures.js";
import { parse } from "./json.js";
import { split } from "./reasoning.js";

// Texts without their reasoning, pictures, calls with their results; no answer that has nothing.
/**
 * @param {Pick<Chat.Conversation, "messages"> & {params?: Chat.Params}} conversation
 * @returns {Chat.Told[]}
 */
export function history({ messages, params }) {
  const lastQuestion = messages.findLastIndex((message) => message.role === "user");
  const told = messages.flatMap((message, at) => {
    if (message.role === "user") return [asQuestion(parts(message))];
    if (message.role !== "assistant") return []; // results come with their calls
    const { thinking, text } = split(message);
    const results = resultsOf(messages, at);
    if (!results.length) return text ? [/** @type {Chat.Told} */ ({ role: "assistant", content: text })] : [];
    const calls = message.calls.filter(Boolean).map(toldCall);
    // Models that think between their calls want to see what they have thought since the question.
    const thoughts = at > lastQuestion && thinking ? { reasoning_content: thinking } : {};
    /** @type {Chat.Told[]} */
    const toldResults = results.map(({ tool_call_id, content }) => ({ role: "tool", tool_call_id, content }));
    return [/** @type {Chat.Told} */ ({ role: "assistant", content: text, tool_calls: calls, ...thoughts }), ...toldResults];
  });
  const system = params?.system;
  return system?.trim() ? [{ role: "system", content: system }, ...told] : told;
}

/** @param {string | Chat.Part[]} content @returns {Chat.Told} */
function asQuestion(content) {
  return typeof content === "string" ? { role: "user", content } : { role: "user", content };
}

// The results of all calls of the answer at this place; [] when one is missing: engines refuse
// calls that nobody has answered.
/** @param {Chat.Message[]} messages @param {number} at */
export function resultsOf(messages, at) {
  const answer = messages[at];
  const calls = answer?.role === "assistant" ? (answer.calls ?? []).filter(Boolean) : [];
  /** @type {Chat.Result[]} */
  const results = [];
  for (const message of messages.slice(at + 1)) {
    if (message.role !== "tool") break;
    results.push(message);
  }
  const ids = new Set(results.map((result) => result.tool_call_id));
  return calls.length && calls.every((call, place) => ids.has(idOf(call, place))) ? results : [];
}

/** @param {Chat.Call} call @param {number} at @returns {Chat.ToldCall} */
function toldCall(call, at) {
  const { value, says } = parse(call.arguments || "{}");
  const isObject = !says && value !== null && typeof value === "object" && !Array.isArray(value);
  // Engines read them as JSON before the model sees them, and refuse the question when they are not.
  const told = isObject ? call.arguments || "{}" : JSON.stringify({ not_json: call.arguments });
  return { id: idOf(call, at), type: "function", function: { name: call.name, arguments: told } };
}

// The messages of a conversation as [{question, said}]: what follows each question, up to the next.
/** @param {Pick<Chat.Conversation, "messages">} conversation */
export function turnsOf({ messages }) {
  /** @type {{question: Chat.Question, said: (Chat.Answer | Chat.Result)[]}[]} */
  const turns = [];
  for (const message of messages) {
    if (message.role === "user") turns.push({ question: message, said: [] });
    else turns.at(-1)?.said.push(message);
  }
  return turns;
}

// What the message at this place was asked with, for a look at the raw request.
/**
 * @param {Pick<Chat.Conversation, "messages"> & {params?: Chat.Params}} conversation
 * @param {Chat.Message} message
 */
export const asked = (conversation, message) =>
  history({ ...conversation, messages: conversation.messages.slice(0, conversation.messages.indexOf(message)) });

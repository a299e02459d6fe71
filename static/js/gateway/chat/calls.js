// @ts-check
// The calls of tools in an answer: what was called with what, and the results that a person types.

import { copyButton } from "../../page/clipboard.js";
import { block, button, element, folded, inert } from "../../page/dom.js";
import { excerpt, parse, tree } from "./json.js";
import { knows, parametersOf, toolName } from "./tools.js";
import { problems } from "./validation.js";

/** @typedef {{results: Chat.Result[], respond?: ((results: Chat.Result[]) => void) | null | undefined, isAnswered: boolean}} How */

// While it streams: names and arguments as far as they have come.
/** @param {Chat.Answer["calls"]} calls */
export function arrivingCalls(calls) {
  return calls.filter(Boolean).map((call) => element("section", "call", title(call), element("pre", "", call.arguments)));
}

/** @param {Chat.Answer} message @param {How} how */
export function callsView(message, { results, respond, isAnswered }) {
  const calls = message.calls.filter(Boolean);
  const sections = calls.map((call) => element("section", "call", title(call), ...argumentsView(call, message.request)));
  if (!respond || message.stopped || message.error) return inert("div", "calls", ...sections);
  const areas = calls.map((call, at) => area(call, at, results.find((result) => result.tool_call_id === idOf(call, at))));
  const send = button(calls.length > 1 ? "Send results" : "Send result", "", () =>
    respond(calls.map((call, at) => ({ role: "tool", tool_call_id: idOf(call, at), name: call.name, content: areas[at]?.field.value ?? "" }))),
  );
  send.className = "";
  for (const { field } of areas) {
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      send.click();
    });
  }
  /** @param {string} note */
  const foot = (note) => element("p", "calls-foot", send, element("span", "note", note));
  if (isAnswered) {
    const again = areas.flatMap(({ label, field }) => [label, field]);
    return inert("div", "calls", ...sections, folded("Change the results", "calls-again", ...again, foot("What stands below stays, as another version.")));
  }
  for (const [at, { label, field }] of areas.entries()) sections[at]?.append(label, field);
  return inert("div", "calls", ...sections, foot("You are the tool: nothing is run."));
}

// Engines without ids, and those that give the same one twice, still need one of each.
/** @param {Chat.Call} call @param {number} at */
export const idOf = (call, at) => call.id || `call_${at}`;

/** @param {Chat.Call} call */
function title(call) {
  return element("p", "call-title", "Calls ", toolName(call.name), copyButton("Copy the arguments", () => call.arguments));
}

/** @param {Chat.Call} call @param {Chat.Sent | undefined} request */
function argumentsView(call, request) {
  const { value, says, at } = parse(call.arguments || "{}");
  if (says) {
    return [
      element("p", "call-problem", `The arguments are not JSON. ${says} They go back to the model as they are, within {"not_json": …}.`),
      excerpt(call.arguments, at),
      ...(call.arguments.length > 40 ? [block(call.arguments)] : []),
    ];
  }
  const isKnown = knows(request, call.name);
  const said = isKnown ? fits(value, parametersOf(request, call.name)) : [];
  const wrong = new Map(said.map((each) => [each.path, each.says]));
  const words = isKnown ? said.map(({ path, says }) => `${path || "/"} ${says}`).join("; ") : "No tool has this name.";
  return [...(words ? [element("p", "call-problem", words)] : []), tree(value, { wrong })];
}

/** @param {unknown} value @param {unknown} schema */
const fits = (value, schema) => (schema ? problems(schema, value) : []);

/** @param {Chat.Call} call @param {number} at @param {Chat.Result | undefined} result */
function area(call, at, result) {
  const made = element("textarea", "call-result code");
  made.rows = 2;
  made.value = result?.content ?? "";
  made.placeholder = '{"degrees": 21}';
  made.spellcheck = false;
  made.setAttribute("aria-label", `Result of ${call.name || `call ${at + 1}`}`);
  return { field: made, label: element("span", "note", `Result of ${call.name || `call ${at + 1}`}`) };
}

// The result of a call, as a message of the conversation.
export class ResultView {
  /** @param {Chat.Result} message @param {Pick<Chat.Actions, "versions">} [actions] */
  constructor(message, { versions = () => [] } = {}) {
    this.message = message;
    const { value, says } = parse(message.content);
    const shown = says || value === null || typeof value !== "object" ? element("pre", "", message.content) : tree(value);
    this.root = inert("article", "message result", element("p", "call-title", "Result of ", toolName(message.name), ...versions()), shown);
    this.root.setAttribute("aria-label", "Result of a tool");
  }
}

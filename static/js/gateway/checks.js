// @ts-check
// What programs ask of the gateway, in as few tokens as tell whether it works.

import { textOf } from "./chat/stream-reader.js";

const MOST_TOKENS = 16;
const HELLO = "Say hello in one sentence.";
const TOOL = {
  name: "get_current_time",
  description: "The time now.",
  schema: { type: "object", properties: {} },
};

const MODELS = { what: "GET /v1/models", path: "/v1/models" };

// The steps of a test: `asks` is that of the client whose lines are tested.
/** @param {string | undefined} asks @param {string} model @returns {Gateway.Step[]} */
export function plan(asks, model) {
  if (asks === "messages") return [messages(model), messages(model, TOOL)];
  const steps = [MODELS, chat(model)];
  return asks === "tools" ? [...steps, chat(model, TOOL)] : steps;
}

/** @param {string} model @param {typeof TOOL} [tool] @returns {Gateway.Question} */
function chat(model, tool) {
  const tools = tool && [
    { type: "function", function: { name: tool.name, description: tool.description, parameters: tool.schema } },
  ];
  return {
    what: `POST /v1/chat/completions${tool ? ", with a tool" : ""}`,
    path: "/v1/chat/completions",
    hasTool: Boolean(tool),
    headers: {},
    body: { model, stream: true, max_tokens: MOST_TOKENS, messages: [{ role: "user", content: HELLO }], ...(tools && { tools }) },
    take: takeChat,
  };
}

// Claude Code sends the token that its lines name as a bearer's.
/** @param {string} model @param {typeof TOOL} [tool] @returns {Gateway.Question} */
function messages(model, tool) {
  const tools = tool && [{ name: tool.name, description: tool.description, input_schema: tool.schema }];
  return {
    what: `POST /v1/messages${tool ? ", with a tool" : ""}`,
    path: "/v1/messages?beta=true",
    hasTool: Boolean(tool),
    headers: { "anthropic-version": "2023-06-01" },
    body: {
      model,
      stream: true,
      max_tokens: MOST_TOKENS,
      system: [{ type: "text", text: "You are short." }],
      messages: [{ role: "user", content: [{ type: "text", text: HELLO }] }],
      ...(tools && { tools }),
    },
    take: takeMessages,
  };
}

// Both add what an event says to `heard`: words, thoughts, calls, finish.

/** @param {Streamed} chunk @param {Gateway.Words} heard */
function takeChat(chunk, heard) {
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const delta = choice.delta ?? {};
  heard.words += textOf(delta.content);
  heard.thoughts += textOf(delta.reasoning ?? delta.reasoning_content);
  for (const call of delta.tool_calls ?? []) heard.calls += textOf(call.function?.name);
  if (choice.finish_reason) heard.finish = choice.finish_reason;
}

/** @param {Streamed} event @param {Gateway.Words} heard */
function takeMessages(event, heard) {
  const delta = event.delta ?? {};
  heard.words += textOf(delta.text);
  heard.thoughts += textOf(delta.thinking);
  if (event.content_block?.type === "tool_use") heard.calls += textOf(event.content_block.name);
  if (event.type === "message_stop") heard.finish ||= "end";
  if (delta.stop_reason) heard.finish = delta.stop_reason;
}

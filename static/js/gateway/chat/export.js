// @ts-check
// A conversation as a file: to read, to keep, or to ask the same from a shell or a program. No key
// is in any of them.

import { fence, quoted, textFiles } from "./files.js";
import { pictures } from "./pictures.js";
import { split } from "./reasoning.js";
import { history, turnsOf } from "./request.js";
import { titleOf } from "./store.js";

// What the openai package knows by name; all else goes as extra_body.
const KNOWN = new Set([
  "model", "messages", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed", "n",
  "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "tools", "tool_choice",
  "parallel_tool_calls", "response_format", "reasoning_effort",
]);

const KEY = "INFERDASH_API_KEY";
const WHERE = "A key of yours, from the page “Keys” of inferdash";

/**
 * `base` is the gateway's address, `params` what the page would send now.
 * @typedef {{base: string, params: Record<string, unknown>, model: string}} Asked
 * @typedef {{base: string, body: Record<string, unknown>}} How
 * @typedef {keyof typeof FORMS} Form
 * @typedef {keyof typeof TOGETHER} TogetherForm
 */

export const FORMS = {
  markdown: { title: "Markdown", ending: "md", type: "text/markdown", make: markdown },
  json: { title: "JSON", ending: "json", type: "application/json", make: json },
  curl: { title: "curl", ending: "sh", type: "text/x-shellscript", make: curl },
  python: { title: "Python (openai)", ending: "py", type: "text/x-python", make: python },
};

// Of a comparison: all columns in one file. `first` stands for it, `columns` are conversations.
export const TOGETHER = {
  markdown: { title: "All columns: Markdown", ending: "md", type: "text/markdown", make: markdownTogether },
  json: { title: "All columns: JSON", ending: "json", type: "application/json", make: jsonTogether },
};

/** @param {Chat.Conversation} first @param {Chat.Settled[]} columns @param {TogetherForm} form */
export function downloadTogether(first, columns, form) {
  const { ending, type, make } = TOGETHER[form];
  offer(make(first, columns), fileName(first, ending), type);
}

/** @param {Chat.Conversation} conversation @param {string} ending */
export function fileName(conversation, ending) {
  const words = titleOf(conversation).normalize("NFKD").toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 50).replace(/^-|-$/g, "");
  return `${words || "conversation"}-${new Date().toISOString().slice(0, 10)}.${ending}`;
}

/** @param {Chat.Conversation} conversation @param {Form} form @param {Asked} asked */
export function download(conversation, form, { base, params, model }) {
  const { ending, type, make } = FORMS[form];
  const text = make(conversation, { base, body: request(conversation, params, model) });
  offer(text, fileName(conversation, ending), type);
}

/** @param {string} text @param {string} name @param {string} type */
function offer(text, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// What asks for the last answer again.
/** @param {Chat.Conversation} conversation @param {Record<string, unknown>} params @param {string} model */
function request(conversation, params, model) {
  const at = conversation.messages.findLastIndex(({ role }) => role === "assistant");
  const found = conversation.messages[at];
  const answer = found?.role === "assistant" ? found : undefined;
  /** @type {Record<string, unknown>} */
  const kept = answer?.request ?? { ...params, model };
  const { stream: _stream, stream_options: _options, messages: _messages, ...sent } = kept;
  const asked = { ...conversation, messages: at < 0 ? conversation.messages : conversation.messages.slice(0, at) };
  return { model: answer?.model ?? model, ...sent, messages: history(asked) };
}

/** @param {Chat.Conversation} conversation */
function markdown(conversation) {
  const { messages, params } = conversation;
  const parts = [`# ${titleOf(conversation)}`];
  const system = params?.system?.trim();
  if (system) parts.push("## System", system);
  /** @type {Chat.Picture[]} */
  const shown = [];
  for (const message of messages) parts.push(...said(message, shown));
  return written(parts, shown);
}

// Each question once, below it what the columns said to it.
/** @param {Chat.Conversation} first @param {Chat.Settled[]} columns */
function markdownTogether(first, columns) {
  const parts = [`# ${titleOf(first)}`];
  for (const { title, conversation } of columns) {
    const set = Object.entries(conversation.params).map(([name, value]) => `${name} ${String(value).trim().replace(/\s+/g, " ")}`);
    parts.push(`- ${title}: ${conversation.server}${set.length ? `, ${set.join(", ")}` : ""}`);
  }
  const turns = columns.map(({ conversation }) => turnsOf(conversation));
  /** @type {Chat.Picture[]} */
  const shown = [];
  for (const [at, { question }] of (turns[0] ?? []).entries()) {
    parts.push(...said(question, shown));
    for (const [place, { title }] of columns.entries()) {
      parts.push(`### Column ${title}`, ...(turns[place]?.[at]?.said ?? []).flatMap((message) => said(message, shown)));
    }
  }
  return written(parts, shown);
}

// The pictures themselves stand below the text, which they would bury.
/** @param {string[]} parts @param {Chat.Picture[]} shown */
function written(parts, shown) {
  const held = shown.map(({ url }, at) => `[picture ${at + 1}]: ${url}`);
  return `${[...parts, ...held].join("\n\n")}\n`;
}

// Pictures are added to `shown`.
/** @param {Chat.Message} message @param {Chat.Picture[]} shown @returns {string[]} */
function said(message, shown) {
  if (message.role === "user") {
    const images = pictures(message).map((image) => {
      shown.push(image);
      return `![${plainly(image.name)}, ${image.width} × ${image.height}][picture ${shown.length}]`;
    });
    return ["## You", ...images, ...textFiles(message).map(quoted), message.content].filter(Boolean);
  }
  if (message.role === "tool") return ["## Result", fence(message.content)];
  const { thinking, text } = split(message);
  const parts = [`## ${message.model}`];
  if (thinking) parts.push(`<details><summary>Reasoning</summary>\n\n${fence(thinking.trim())}\n\n</details>`);
  if (text) parts.push(text.trim());
  for (const call of (message.calls ?? []).filter(Boolean)) parts.push(`Calls \`${call.name}\`:`, fence(call.arguments, "json"));
  if (message.error) parts.push(`*${message.error.message}*`);
  return parts;
}

// A name as Markdown shows it: it is a file's, and may hold anything.
/** @param {string} name */
const plainly = (name) => String(name).replace(/\s+/g, " ").replace(/[\\`*_[\]<>!&]/g, "\\$&");

/** @param {Chat.Conversation} conversation */
function json(conversation) {
  return `${JSON.stringify({ title: titleOf(conversation), ...plain(conversation) }, null, 2)}\n`;
}

/** @param {Chat.Conversation} first @param {Chat.Settled[]} columns */
function jsonTogether(first, columns) {
  return `${JSON.stringify({ title: titleOf(first), columns: columns.map(({ conversation }) => plain(conversation)) }, null, 2)}\n`;
}

// With other versions: every message that there ever was, each with the place of its parent.
/** @param {Chat.Conversation} conversation */
const plain = ({ name, server, params, tools, schema, messages, every }) => ({
  name, server, params, tools, schema, messages, ...(every.length > messages.length ? { every } : {}),
});

/** @param {Chat.Conversation} _conversation @param {How} how */
function curl(_conversation, { base, body }) {
  return `#!/bin/sh
# ${WHERE}: export ${KEY}=ifd_…
curl ${base}/chat/completions \\
  -H "Authorization: Bearer $${KEY}" \\
  -H "Content-Type: application/json" \\
  --data-binary @- <<'END_OF_REQUEST'
${JSON.stringify(body, null, 2)}
END_OF_REQUEST
`;
}

/** @param {Chat.Conversation} _conversation @param {How} how */
function python(_conversation, { base, body }) {
  const known = Object.entries(body).filter(([name]) => KNOWN.has(name));
  const extra = Object.fromEntries(Object.entries(body).filter(([name]) => !KNOWN.has(name)));
  const words = known.map(([name, value]) => `    ${name}=${literal(value, 1)},`);
  if (Object.keys(extra).length) words.push(`    extra_body=${literal(extra, 1)},`);
  return `# pip install openai
import os

from openai import OpenAI

# ${WHERE}: export ${KEY}=ifd_…
client = OpenAI(base_url="${base}", api_key=os.environ["${KEY}"])
stream = client.chat.completions.create(
${words.join("\n")}
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
`;
}

// A JSON value as Python writes it. JSON's texts are Python's, too, but for halves of a pair.
/** @param {unknown} value @param {number} depth @returns {string} */
function literal(value, depth) {
  const pad = "    ".repeat(depth);
  /** @param {string} open @param {string[]} parts @param {string} close */
  const lines = (open, parts, close) => (parts.length ? `${open}\n${parts.map((part) => `${pad}    ${part},\n`).join("")}${pad}${close}` : open + close);
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return lines("[", value.map((each) => literal(each, depth + 1)), "]");
  if (typeof value !== "object") return JSON.stringify(value);
  return lines("{", Object.entries(value).map(([name, held]) => `${JSON.stringify(name)}: ${literal(held, depth + 1)}`), "}");
}

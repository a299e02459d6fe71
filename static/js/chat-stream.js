// @ts-check
// Sends one question and reads the engine's events into an answer.

import { takeLogprobs } from "./chat-logprobs.js";
import { keep } from "./chat-raw.js";
import { split } from "./chat-reasoning.js";
import { events, isAbort, parsed, textOf } from "./stream.js";

export { split };

/** @typedef {{url: string, csrf: {toString(): string}, body: Chat.Body, signal: AbortSignal}} Asked */

export class ChatError extends Error {
  /** @param {string} message @param {string} [detail] */
  constructor(message, detail = "") {
    super(message);
    this.detail = detail;
  }
}

const LOST =
  "The connection to inferdash was lost in the middle of the answer. What had arrived is kept. " +
  "Check that you are online, then retry.";

// Fills `answer` as events come and calls changed() after each piece. Throws ChatError for
// what a person should read, AbortError when signal was used.
/** @param {Asked & {answer: Chat.Answer, changed: () => void}} how */
export async function ask({ url, csrf, body, signal, answer, changed }) {
  const clock = new Clock(answer);
  const { headers, body: stream } = await send({ url, csrf, body, signal });
  let done = false;
  try {
    if (!stream) throw new TypeError(`no answer in ${headers.get("Content-Type")}`);
    for await (const event of events(stream, (text) => keep(answer, text))) {
      if (event.name === "request") {
        answer.request = JSON.parse(event.data);
        continue;
      }
      if (event.name === "error") {
        const { message, detail } = JSON.parse(event.data);
        throw new ChatError(message, detail);
      }
      if (event.data === "[DONE]") {
        done = true;
        break;
      }
      take(answer, parsed(event.data), clock);
      changed();
    }
  } catch (error) {
    if (error instanceof TypeError) throw new ChatError(LOST, error.message); // fetch's word for it
    throw error;
  } finally {
    clock.stop();
  }
  if (!done && !answer.finish) {
    throw new ChatError(
      "The engine ended the answer without finishing it: it is probably stopping. What had " +
        "arrived is kept. Look at its log, then retry.",
    );
  }
}

/** @param {Asked} how */
async function send({ url, csrf, body, signal }) {
  let response;
  try {
    response = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRFToken": String(csrf) },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    const words = error instanceof Error ? error.message : String(error);
    throw new ChatError("inferdash does not answer. Check that you are online, then retry.", words);
  }
  if (response.headers.get("Content-Type")?.startsWith("text/event-stream")) return response;
  if (response.redirected || response.status === 403) {
    throw new ChatError("You are logged out, or may no longer chat. Reload the page and log in, then retry.");
  }
  throw new ChatError(`inferdash could not take the message (${response.status}). Reload the page, then retry.`);
}

/** @param {Chat.Answer} answer @param {Streamed} chunk @param {Clock} clock */
function take(answer, chunk, clock) {
  if (chunk.error) {
    const error = chunk.error;
    const words = typeof error === "string" ? error : (error.message ?? JSON.stringify(error));
    throw new ChatError(
      "The engine reported an error in the middle of the answer. What had arrived is kept. " +
        "Look at its log, then retry.",
      words,
    );
  }
  if (chunk.usage) answer.usage = chunk.usage;
  if (chunk.timings) answer.timings = chunk.timings; // llama.cpp's own figures
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const delta = choice.delta ?? {};
  const reasoning = textOf(delta.reasoning ?? delta.reasoning_content);
  const content = textOf(delta.content);
  const calls = delta.tool_calls ?? [];
  if (reasoning || content || calls.length) clock.tick();
  answer.reasoning += reasoning;
  answer.content += content;
  for (const call of calls) takeCall(answer.calls, call);
  takeLogprobs(answer, choice.logprobs?.content);
  if (answer.reasonedMs === null) clock.watchReasoning(split(answer), answer.calls.length);
  if (choice.finish_reason) answer.finish = choice.finish_reason;
  const matched = choice.matched_stop ?? choice.stop_reason; // SGLang's and vLLM's word for it
  if (typeof matched === "string") answer.matched = matched;
  if (choice.meta_info) answer.meta = choice.meta_info;
}

// The first piece of a call has its id and name, the others continue its arguments.
/** @param {Chat.Answer["calls"]} calls @param {StreamedCall} piece */
function takeCall(calls, { index, id, function: called }) {
  const last = calls.length - 1;
  const at = typeof index === "number" && Number.isInteger(index) && index >= 0 && index < 64 ? index : Math.max(0, id && id !== calls[last]?.id ? last + 1 : last);
  const call = (calls[at] ??= { id: "", name: "", arguments: "" });
  call.id ||= typeof id === "string" ? id : "";
  const name = textOf(called?.name);
  if (name !== call.name) call.name += name;
  const given = called?.arguments;
  call.arguments += given && typeof given === "object" ? JSON.stringify(given) : textOf(given);
}

class Clock {
  /** @type {number | undefined} */
  first;
  /** @type {number | undefined} */
  thinkingSince;
  last = 0;

  /** @param {Chat.Answer} answer */
  constructor(answer) {
    this.answer = answer;
    this.began = performance.now();
  }

  tick() {
    const now = performance.now();
    this.first ??= now;
    this.last = now;
    this.answer.chunks += 1;
    this.answer.firstMs = this.first - this.began;
    this.answer.spanMs = now - this.first;
  }

  /** @param {{thinking: string, text: string}} said @param {number} calls */
  watchReasoning({ thinking, text }, calls) {
    if (thinking) this.thinkingSince ??= performance.now();
    if (this.thinkingSince !== undefined && (text || calls)) {
      this.answer.reasonedMs = performance.now() - this.thinkingSince;
    }
  }

  stop() {
    if (this.thinkingSince !== undefined) {
      this.answer.reasonedMs ??= this.last - this.thinkingSince;
    }
  }
}

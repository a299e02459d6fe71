// @ts-check
// Sends one question and reads the engine's events into an answer.

import { takeLogprobs } from "./logprobs.js";
import { drop, keep } from "./raw.js";
import { split } from "./reasoning.js";
import { sizeOf } from "./versions.js";
import { events, isAbort, parsed, textOf } from "./stream-reader.js";

export { split };

/**
 * `answers` is where answers are taken up again, "" where they end with their page.
 * @typedef {{url: string, answers?: string, csrf: {toString(): string}, body: Chat.Body, signal: AbortSignal}} Asked
 * @typedef {{answers: string, csrf: {toString(): string}, signal: AbortSignal, answer: Chat.Answer, changed: () => void, lost?: (isLost: boolean) => void}} TakenUp
 * @typedef {{answers: string, csrf: {toString(): string}, key: string}} Stopped
 */

export class ChatError extends Error {
  /** @param {string} message @param {string} [detail] */
  constructor(message, detail = "") {
    super(message);
    this.detail = detail;
  }
}

/** The connection went away, and the answer goes on in the server. */
class LostError extends Error {}

const SILENT = 20_000; // ms without a sign, of which the server gives one every 5 s
const AGAIN = [0, 1000, 2000, 4000, 8000, 15_000]; // ms until a lost connection is tried again
const LOST =
  "The connection to inferdash was lost in the middle of the answer. What had arrived is kept. " +
  "Check that you are online, then retry.";
const GONE = "inferdash does not have this answer any more: it keeps one for a day, and none while Redis is away. What had arrived is kept. Retry to ask again.";

// Fills `answer` as events come and calls changed() after each piece. Throws ChatError for
// what a person should read, AbortError when signal was used.
/** @param {Asked & Pick<TakenUp, "answer" | "changed" | "lost">} how */
export async function ask({ url, answers = "", csrf, body, signal, answer, changed, lost }) {
  const { headers, body: stream } = await send({ url, csrf, body, signal });
  if (!stream) throw new ChatError(LOST, `no answer in ${headers.get("Content-Type")}`);
  try {
    await hear(stream, { answer, signal, changed, isPast: false });
  } catch (error) {
    if (!(error instanceof LostError)) throw error;
    if (!answers || !answer.key) throw new ChatError(LOST, error.message);
    lost?.(true);
    await takeUp({ answers, csrf, signal, answer, changed, lost });
  }
}

// Takes up an answer that goes on in the server: all of it anew, then what comes. Tries until it
// can be had, or the server has it no more.
/** @param {TakenUp} how */
export async function takeUp({ answers, csrf, signal, answer, changed, lost = () => {} }) {
  let tries = 0;
  while (true) {
    await pause(AGAIN[Math.min(tries, AGAIN.length - 1)] ?? 0, signal);
    try {
      const stream = await fetchAnswer(`${answers}${answer.key}/`, csrf, signal);
      if (stream) {
        const found = () => {
          tries = 0;
          lost(false);
          changed();
        };
        await hear(stream, { answer, signal, changed: found, isPast: true });
        return;
      }
    } catch (error) {
      if (!(error instanceof LostError)) throw error;
    }
    tries += 1;
    lost(true);
  }
}

// Tells the server that nobody wants more of it; in the background where it cannot be told now.
/** @param {Stopped} how */
export async function stop(how) {
  if (!(await tell(how))) tellAgain(how);
}

/** @param {Stopped} how */
async function tellAgain(how) {
  const { signal } = new AbortController();
  for (let tries = 1; ; tries++) {
    await pause(AGAIN[Math.min(tries, AGAIN.length - 1)] ?? 0, signal);
    if (await tell(how)) return;
  }
}

/** @param {Stopped} how */
async function tell({ answers, csrf, key }) {
  const how = { method: "POST", headers: { "X-CSRFToken": String(csrf) }, keepalive: true };
  const response = await fetch(`${answers}${key}/stop/`, how).catch(() => null);
  return response !== null && response.status < 500;
}

// null: it cannot be had now. Throws ChatError where it never can.
/** @param {string} url @param {{toString(): string}} csrf @param {AbortSignal} signal */
async function fetchAnswer(url, csrf, signal) {
  let response;
  try {
    response = await fetch(url, { headers: { "X-CSRFToken": String(csrf) }, signal });
  } catch (error) {
    if (isAbort(error)) throw error;
    return null;
  }
  if (response.status === 404) throw new ChatError(GONE);
  if (response.redirected || response.status === 403) throw new ChatError(LOGGED_OUT);
  return response.ok ? response.body : null;
}

// Until the time is over, or the page may be online or is looked at again.
/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
const pause = (ms, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      document.removeEventListener("visibilitychange", done);
      signal.removeEventListener("abort", done);
      if (signal.aborted) reject(new DOMException("Stopped", "AbortError"));
      else resolve();
    }
    window.addEventListener("online", done);
    document.addEventListener("visibilitychange", done);
    signal.addEventListener("abort", done);
  });

// What had come before is heard into an answer of its own, so that what is shown does not shrink.
/**
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream
 * @param {{answer: Chat.Answer, signal: AbortSignal, changed: () => void, isPast: boolean}} how
 */
async function hear(stream, { answer, signal, changed, isPast }) {
  let heard = isPast ? emptied(answer) : answer;
  const clock = new Clock(heard);
  let isDone = false;
  const show = () => {
    if (heard !== answer) Object.assign(answer, heard);
    clock.answer = heard = answer;
    changed();
  };
  if (isPast) drop(answer);
  try {
    for await (const event of events(stream, (text) => keep(answer, text), answer.key ? SILENT : 0)) {
      if (event.name === "request") heard.request = JSON.parse(event.data);
      else if (event.name === "at") clock.at = JSON.parse(event.data).ms;
      else if (event.name === "now") show();
      else if (event.name === "stopped") {
        heard.stopped = answer.stopped = true;
        return;
      } else if (event.name === "error") {
        const { message, detail } = JSON.parse(event.data);
        throw new ChatError(message, detail);
      } else if (event.name === "end" || event.data === "[DONE]") {
        isDone = event.name !== "end" || Boolean(answer.finish || heard.finish);
        if (!isDone) throw new ChatError(ENDED);
        return;
      } else {
        take(heard, parsed(event.data), clock);
        if (heard === answer) changed();
      }
    }
    // Only inferdash tells the end of what goes on in it: without that the connection is what ended.
    if (answer.key && !heard.finish) throw new LostError("the connection ended");
    if (!heard.finish) throw new ChatError(ENDED);
  } catch (error) {
    if (signal.aborted) throw new DOMException("Stopped", "AbortError");
    if (error instanceof TypeError) throw new LostError(error.message); // fetch's word for it
    throw error;
  } finally {
    clock.stop();
    // Redis may have less of it than the page had, where it was away.
    if (heard !== answer && sizeOf(heard) >= sizeOf(answer)) show();
  }
}

const ENDED =
  "The engine ended the answer without finishing it: it is probably stopping. What had " +
  "arrived is kept. Look at its log, then retry.";

// The same answer before anything of it had come.
/** @param {Chat.Answer} answer @returns {Chat.Answer} */
function emptied(answer) {
  const { request: _request, timings: _timings, matched: _matched, meta: _meta, logprobs: _logprobs, ...rest } = answer;
  return { ...rest, content: "", reasoning: "", calls: [], usage: null, chunks: 0, finish: "", firstMs: null, spanMs: null, reasonedMs: null, stopped: false, error: null };
}

const LOGGED_OUT = "You are logged out, or may no longer chat. Reload the page and log in, then retry.";

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
    throw new ChatError(LOGGED_OUT);
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

// Measures by this page's clock; or, where the answer is taken up again, by the server's: `at`.
class Clock {
  /** @type {number | undefined} */
  first;
  /** @type {number | undefined} */
  thinkingSince;
  /** Milliseconds since it was asked. @type {number | undefined} */
  at;
  last = 0;

  /** @param {Chat.Answer} answer */
  constructor(answer) {
    this.answer = answer;
    this.began = performance.now();
  }

  get now() {
    return this.at ?? performance.now() - this.began;
  }

  tick() {
    const { now } = this;
    this.first ??= now;
    this.last = now;
    this.answer.chunks += 1;
    this.answer.firstMs = this.first;
    this.answer.spanMs = now - this.first;
  }

  /** @param {{thinking: string, text: string}} said @param {number} calls */
  watchReasoning({ thinking, text }, calls) {
    if (thinking) this.thinkingSince ??= this.now;
    if (this.thinkingSince !== undefined && (text || calls)) {
      this.answer.reasonedMs = this.now - this.thinkingSince;
    }
  }

  stop() {
    if (this.thinkingSince !== undefined) {
      this.answer.reasonedMs ??= this.last - this.thinkingSince;
    }
  }
}

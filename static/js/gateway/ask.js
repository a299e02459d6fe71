// @ts-check
// Asks the gateway of this page's own origin, as a program does: with a key, without the session.

import { events, isAbort, parsed } from "./chat/stream-reader.js";

/** @typedef {{headers?: Record<string, string>, body?: object, signal?: AbortSignal}} Request */

const LONGEST_MESSAGE = 600; // characters

// Why a step failed: with the status, where there was one, and what the gateway or the engine says.
/** @implements {Gateway.Refusal} */
export class Refused extends Error {
  /** What had come before. @type {Gateway.Words | undefined} */
  heard = undefined;

  // `code` is the gateway's own; "" where an engine, or something in between, has refused.
  /** @param {string} message @param {Partial<Gateway.Refusal>} [how] */
  constructor(message, { status = null, code = "", retryAfter = "", isCut = false, isForeign = false } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
    this.isCut = isCut;
    this.isForeign = isForeign;
  }
}

/** @param {string} path @param {string} key @param {Request} how */
function send(path, key, { headers, body, signal }) {
  return fetch(path, {
    method: body ? "POST" : "GET",
    headers: {
      Authorization: `Bearer ${key}`,
      ...(body && { "Content-Type": "application/json" }),
      ...headers,
    },
    ...(body && { body: JSON.stringify(body) }),
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
    referrerPolicy: "no-referrer",
    signal: signal ?? null,
  });
}

// The names that the key may ask now. Throws Refused.
/** @param {string} key @param {AbortSignal} [signal] */
export async function models(key, signal) {
  const response = await answered("/v1/models", key, { signal });
  return { status: response.status, models: parsed(await response.text()).data ?? [] };
}

// Where a model is that is not ready; "" where it is, or nobody knows.
/** @param {string} model @param {string} key @param {AbortSignal} signal */
export async function whyNot(model, key, signal) {
  const response = await send(`/v1/models/${encodeURIComponent(model)}`, key, { signal });
  return response.ok ? (parsed(await response.text()).why ?? "") : "";
}

// Asks one streamed question, and calls begun() when it is taken. Throws Refused; AbortError when
// signal was used.
/** @param {Gateway.Question} step @param {string} key @param {{signal: AbortSignal, begun: () => void}} on */
export async function ask({ path, headers, body, take }, key, { signal, begun }) {
  const began = performance.now();
  const response = await answered(path, key, { headers, body, signal });
  begun();
  /** @type {Gateway.Heard} */
  const heard = { status: response.status, words: "", thoughts: "", calls: "", finish: "", firstMs: null };
  try {
    if (!response.body || !response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
      throw new Refused("It answered in one piece, although a stream was requested.", { status: response.status });
    }
    for await (const { name, data } of events(response.body)) {
      if (data === "[DONE]") break;
      const event = parsed(data);
      if (name === "error" || event.error) throw cutOff(response.status, event, heard);
      take(event, heard);
      if (heard.words || heard.thoughts || heard.calls) heard.firstMs ??= performance.now() - began;
    }
  } catch (error) {
    if (error instanceof TypeError) {
      throw new Refused("The connection was lost in the middle of the answer.", { status: response.status, isCut: true, isForeign: true });
    }
    throw error;
  }
  if (!heard.finish) {
    throw new Refused("The answer ended without being finished.", { status: response.status, isCut: true });
  }
  return heard;
}

/** @param {number} status @param {Streamed} event @param {Gateway.Words} heard */
function cutOff(status, event, heard) {
  const refused = new Refused(messageOf(event), { status, code: (typeof event.error === "object" && event.error?.code) || "", isCut: true });
  refused.heard = heard;
  return refused;
}

/** @param {string} path @param {string} key @param {Request} how */
async function answered(path, key, how) {
  let response;
  try {
    response = await send(path, key, how);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Refused("No answer: the connection was refused or lost.", { isForeign: true });
  }
  if (response.ok) return response;
  const text = await response.text();
  const kind = response.headers.get("Content-Type") ?? "";
  throw new Refused(messageOf(parsed(text)) || text.slice(0, LONGEST_MESSAGE) || response.statusText, {
    status: response.status,
    code: response.headers.get("x-inferdash-error") ?? "",
    retryAfter: response.headers.get("Retry-After") ?? "",
    isForeign: kind.startsWith("text/html"),
  });
}

// Engines and their frameworks each have a shape of their own.
/** @param {Streamed} said */
function messageOf(said) {
  const { error } = said;
  const found = (typeof error === "object" ? error?.message : undefined) ?? error ?? said.message ?? said.detail ?? "";
  return (typeof found === "string" ? found : JSON.stringify(found)).slice(0, LONGEST_MESSAGE);
}

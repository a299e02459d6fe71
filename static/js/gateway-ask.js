// Asks the gateway of this page's own origin, as a program does: with a key, without the session.

import { events, parsed } from "./stream.js";

const LONGEST_MESSAGE = 600; // characters

// Why a step failed: with the status, where there was one, and what the gateway or the engine says.
export class Refused extends Error {
  // `code` is the gateway's own; "" where an engine, or something in between, has refused.
  constructor(message, { status = null, code = "", retryAfter = "", isCut = false, isForeign = false } = {}) {
    super(message);
    Object.assign(this, { status, code, retryAfter, isCut, isForeign });
  }
}

function send(path, key, { headers, body, signal } = {}) {
  return fetch(path, {
    method: body ? "POST" : "GET",
    headers: {
      Authorization: `Bearer ${key}`,
      ...(body && { "Content-Type": "application/json" }),
      ...headers,
    },
    body: body && JSON.stringify(body),
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
    referrerPolicy: "no-referrer",
    signal,
  });
}

// The names that the key may ask now. Throws Refused.
export async function models(key, signal) {
  const response = await answered("/v1/models", key, { signal });
  return { status: response.status, models: parsed(await response.text()).data ?? [] };
}

// Where a model is that is not ready; "" where it is, or nobody knows.
export async function whyNot(model, key, signal) {
  const response = await send(`/v1/models/${encodeURIComponent(model)}`, key, { signal });
  return response.ok ? (parsed(await response.text()).why ?? "") : "";
}

// Asks one streamed question, and calls begun() when it is taken. Throws Refused; AbortError when
// signal was used.
export async function ask({ path, headers, body, take }, key, { signal, begun }) {
  const began = performance.now();
  const response = await answered(path, key, { headers, body, signal });
  begun();
  const heard = { status: response.status, words: "", thoughts: "", calls: "", finish: "", firstMs: null };
  try {
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
      throw new Refused("It answered in one piece, although a stream was asked for.", { status: response.status });
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

function cutOff(status, event, heard) {
  const refused = new Refused(messageOf(event), { status, code: event.error?.code ?? "", isCut: true });
  refused.heard = heard;
  return refused;
}

async function answered(path, key, options) {
  let response;
  try {
    response = await send(path, key, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
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
function messageOf(said) {
  const found = said?.error?.message ?? said?.error ?? said?.message ?? said?.detail ?? "";
  return (typeof found === "string" ? found : JSON.stringify(found)).slice(0, LONGEST_MESSAGE);
}

// @ts-check
// The figures under an answer.

import { count, element, plural, seconds } from "../../page/dom.js";
import { reasoningTokens } from "./reasoning.js";

const SPAN = 10; // ms; an answer that comes at once says nothing of a speed

/** @type {Record<string, string>} */
const FINISHES = {
  tool_calls: "calls a tool",
  function_call: "calls a tool",
  content_filter: "ended by a content filter",
  abort: "aborted by the engine",
  error: "ended by an error of the engine",
};

/** @param {Chat.Answer} message */
export function figures(message) {
  return [first(message), rate(message), ...tokens(message), speculation(message), finish(message), figure(`by ${message.server}`)].filter(Boolean);
}

// What is read at a glance: who, how soon, how fast, how much, and an end that is none.
/** @param {Chat.Answer} message */
export function summary(message) {
  const { usage, firstMs, model, finish: reason, stopped } = message;
  const made = usage?.completion_tokens;
  const speed = rateOf(message);
  const ends = finish(message);
  const isPlain = !stopped && (reason === "stop" || !reason) && !message.calls.some(Boolean);
  return [
    figure(model, `Served by ${message.server}`, "figure model"),
    firstMs === null ? null : figure(seconds(firstMs), "Time to the first token"),
    speed === null ? null : figure(`${speed.toFixed(1)} tok/s`),
    made ? figure(plural(made, "token")) : null,
    isPlain ? null : ends,
  ].filter(Boolean);
}

/** @param {string} text @param {string} [title] @param {string} [className] */
function figure(text, title = "", className = "figure") {
  const made = element("span", className, text);
  if (title) made.title = title;
  return made;
}

/** @param {Chat.Answer} message */
function first({ firstMs }) {
  return firstMs === null ? null : figure(`first token ${seconds(firstMs)}`, "From Send to the first token, as this browser saw it");
}

// Tokens a second after the first, as this browser saw them; null where too little came, or nobody
// has counted.
/** @param {Chat.Answer} message */
function seenRate({ usage, spanMs }) {
  const made = usage?.completion_tokens;
  return made && made > 1 && spanMs !== null && spanMs >= SPAN ? (made - 1) / (spanMs / 1000) : null;
}

// The same, or else what the engine says; null where nobody does.
/** @param {Chat.Answer} message */
export function rateOf(message) {
  const theirs = message.timings?.predicted_per_second;
  return seenRate(message) ?? (typeof theirs === "number" ? theirs : null);
}

/** @param {Chat.Answer} message */
function rate(message) {
  const seen = seenRate(message);
  const theirs = message.timings?.predicted_per_second;
  const words = typeof theirs === "number" ? ` The engine itself says ${theirs.toFixed(1)}.` : "";
  if (seen !== null) return figure(`${seen.toFixed(1)} tok/s`, `After the first token.${words}`);
  return typeof theirs === "number" ? figure(`${theirs.toFixed(1)} tok/s`, "As the engine says") : null;
}

// How many tokens of the prompt were in the cache; null when the engine does not say.
/** @param {Pick<Chat.Answer, "usage" | "timings">} message */
export function cached({ usage, timings }) {
  return usage?.prompt_tokens_details?.cached_tokens ?? usage?.cached_tokens ?? timings?.cache_n ?? null;
}

/** @param {Chat.Answer} message */
function tokens(message) {
  const { usage, chunks } = message;
  if (!usage) return chunks ? [figure(`about ${count(chunks)} chunks`, "The engine reported no token counts")] : [];
  const hits = cached(message);
  const seen = usage.prompt_tokens_details?.multimodal_tokens?.image; // vLLM's, from 0.32 on
  const within = [hits === null ? "" : `${count(hits)} cached`, seen ? `${count(seen)} of pictures` : ""].filter(Boolean);
  const told = within.length ? ` (${within.join(", ")})` : "";
  const thought = reasoningTokens(message);
  const reasoned = thought ? ` (${thought.isEstimate ? "about " : ""}${count(thought.tokens)} reasoning)` : "";
  const title = thought?.isEstimate ? "The engine does not count reasoning tokens: theirs is the reasoning's share of the text" : "";
  return [figure(`${count(usage.prompt_tokens ?? 0)} prompt${told} + ${count(usage.completion_tokens ?? 0)} completion tokens${reasoned}`, title)];
}

/** @param {Chat.Answer} message */
function speculation({ usage, timings, meta }) {
  const details = usage?.completion_tokens_details ?? {};
  const accepted = timings?.draft_n_accepted ?? details.accepted_prediction_tokens;
  const drafted = timings?.draft_n ?? (accepted ?? 0) + (details.rejected_prediction_tokens ?? 0);
  if (accepted !== undefined && accepted !== null && drafted > 0) {
    return figure(`${Math.round((100 * accepted) / drafted)} % of ${count(drafted)} drafted tokens accepted`, "Speculative decoding, of this answer");
  }
  const share = meta?.spec_accept_rate;
  return typeof share === "number" ? figure(`${Math.round(100 * share)} % of drafted tokens accepted`, "Speculative decoding, of this answer") : null;
}

/** @param {Chat.Answer} message */
function finish(message) {
  if (message.stopped) return figure("stopped by you");
  if (message.finish === "length") {
    const limit = message.request?.max_tokens ?? message.request?.max_completion_tokens;
    const isMine = limit && (message.usage?.completion_tokens ?? limit) >= limit;
    return isMine
      ? figure("cut off at max tokens", "Raise max tokens for a longer answer", "figure attention")
      : figure("context length reached", "The context is full, or the engine's own limit is reached", "figure attention");
  }
  // vLLM, as OpenAI, says "stop" of a call that the request itself has named.
  if (message.finish === "stop" && message.calls?.some(Boolean)) return figure("calls a tool", "finish_reason: stop");
  if (message.finish === "stop") {
    const at = typeof message.matched === "string" ? `: ${JSON.stringify(message.matched)}` : "";
    return figure(at ? `stopped at${at.slice(1)}` : "complete", "finish_reason: stop");
  }
  return message.finish ? figure(FINISHES[message.finish] ?? `finish: ${message.finish}`, `finish_reason: ${message.finish}`) : null;
}

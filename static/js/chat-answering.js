// @ts-check
// One answer while it arrives: shown as it comes, kept every now and then, ended with its reason.

import { CUT_OFF } from "./chat-store.js";
import { ChatError, ask } from "./chat-stream.js";
import { isAbort } from "./stream.js";

const SAVE_EVERY = 1000; // ms

// Fills `message`; `view()` shows it, if it is on the page, and `keep()` keeps what has come.
/**
 * @param {import("./chat-stream.js").Asked & {
 *   message: Chat.Answer,
 *   view: () => Pick<Chat.View, "wait" | "update"> | undefined,
 *   keep: () => void,
 *   isLeaving: () => boolean,
 * }} how
 */
export async function receive({ url, csrf, body, signal, message, view, keep, isLeaving }) {
  const began = performance.now();
  const waiting = setInterval(() => {
    const passed = Math.round((performance.now() - began) / 1000);
    view()?.wait?.(message.chunks ? "" : `Waiting for the first token… ${passed} s`);
  }, 1000);
  let savedAt = began;
  const changed = () => {
    view()?.wait?.("");
    view()?.update?.();
    if (performance.now() - savedAt < SAVE_EVERY) return;
    savedAt = performance.now();
    keep();
  };
  try {
    await ask({ url, csrf, body, signal, answer: message, changed });
  } catch (error) {
    if (isAbort(error)) message.stopped = true;
    else if (isLeaving()) message.error = CUT_OFF;
    else if (error instanceof ChatError) message.error = { message: error.message, detail: error.detail };
    else throw error;
  } finally {
    clearInterval(waiting);
  }
}

/** @param {Chat.Answer} message */
export function outcome(message) {
  if (message.error) return "The answer failed.";
  if (message.stopped) return "Stopped.";
  const tokens = message.usage?.completion_tokens;
  return tokens ? `The answer is complete: ${tokens} tokens.` : "The answer is complete.";
}

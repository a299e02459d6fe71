// @ts-check
// One answer while it arrives: shown as it comes, kept every now and then, ended with its reason.

import { CUT_OFF } from "./store.js";
import { ChatError, ask, stop, takeUp } from "./stream.js";
import { isAbort } from "./stream-reader.js";

const SAVE_EVERY = 1000; // ms

// Fills `message`, or takes it up again where there is no body to ask with; `view()` shows it, if it is on the page, and `keep()` keeps what has come.
/**
 * @param {Omit<import("./stream.js").Asked, "body"> & {
 *   body: Chat.Body | null,
 *   message: Chat.Answer,
 *   view: () => Pick<Chat.View, "wait" | "update"> | undefined,
 *   keep: () => void,
 *   isLeaving: () => boolean,
 * }} how
 */
export async function receive({ url, answers = "", csrf, body, signal, message, view, keep, isLeaving }) {
  const began = performance.now();
  let isLost = false;
  const waiting = setInterval(() => {
    if (isLost) {
      view()?.wait?.("The connection to inferdash was lost. Trying to take the answer up again…");
      return;
    }
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
    const how = { answers, csrf, signal, answer: message, changed, lost: (/** @type {boolean} */ is) => void (isLost = is) };
    if (body) await ask({ ...how, url, body });
    else await takeUp(how);
  } catch (error) {
    if (isAbort(error)) {
      message.stopped = true;
      if (message.key) await stop({ answers, csrf, key: message.key });
    } else if (isLeaving() && !message.key) message.error = CUT_OFF;
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

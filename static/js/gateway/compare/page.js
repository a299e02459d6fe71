// @ts-check
// The parts of a comparison's page.

import { byId, partsOf } from "../../page/parts.js";

export const page = byId("compare", HTMLElement);
export const $ = partsOf({
  "chat-composer": HTMLFormElement,
  "chat-empty": HTMLElement,
  "chat-files-menu": HTMLDetailsElement,
  "chat-name": HTMLInputElement,
  "chat-notice": HTMLElement,
  "chat-params": HTMLDetailsElement,
  "chat-servers": HTMLElement,
  "chat-share": HTMLDetailsElement,
  "chat-status": HTMLElement,
  "chat-transcript": HTMLElement,
  "compare-add": HTMLElement,
  "compare-heads": HTMLElement,
  "compare-order": HTMLSelectElement,
  "compare-shared": HTMLElement,
  "compare-system": HTMLTextAreaElement,
  "compare-told": HTMLDetailsElement,
  "compare-told-badge": HTMLElement,
});

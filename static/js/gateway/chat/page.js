// @ts-check
// The playground's page: its parts, which conversation its address names, what it makes of the store's news.

import { byId, partsOf } from "../../page/parts.js";
import { button } from "../../page/dom.js";
import { titleOf } from "./store.js";

/** @import { Chat } from "./chat.js" */

export const page = byId("chat", HTMLElement);
export const $ = partsOf({
  "chat-attach": HTMLElement,
  "chat-compare": HTMLAnchorElement,
  "chat-composer": HTMLFormElement,
  "chat-conversations": HTMLElement,
  "chat-empty": HTMLElement,
  "chat-files": HTMLInputElement,
  "chat-input": HTMLElement,
  "chat-list": HTMLElement,
  "chat-list-button": HTMLElement,
  "chat-middle": HTMLElement,
  "chat-name": HTMLInputElement,
  "chat-new": HTMLElement,
  "chat-new-above": HTMLElement,
  "chat-newest": HTMLElement,
  "chat-notice": HTMLElement,
  "chat-older": HTMLElement,
  "chat-pictures": HTMLElement,
  "chat-pictures-note": HTMLElement,
  "chat-params": HTMLElement,
  "chat-params-button": HTMLElement,
  "chat-search": HTMLInputElement,
  "chat-server": HTMLElement,
  "chat-servers": HTMLElement,
  "chat-standings": HTMLElement,
  "chat-status": HTMLElement,
  "chat-transcript": HTMLElement,
});

const base = page.dataset.address ?? "";

// "" is a new one.
export function idInAddress() {
  return location.pathname.slice(base.length).replace("/", "");
}

/** @param {string} id @param {boolean} isSame whether it was there before, unnamed */
export function putInAddress(id, isSame) {
  const path = base + (id ? `${id}/` : "");
  if (location.pathname === path) return;
  window.history[isSame ? "replaceState" : "pushState"](null, "", path);
}

// What the store says of conversations, this tab's and others', and what the page makes of it.
/** @param {Chat} chat */
export function hear(chat) {
  const { store } = chat;
  store.on("kept", ({ conversation }) => {
    chat.list.put(conversation);
    if (conversation === chat.conversation) {
      putInAddress(conversation.id, true);
      if (chat.isAway) chat.notice();
    }
    chat.isAway = false;
  });
  store.on("away", ({ message }) => {
    chat.isAway = true;
    chat.notice(message);
  });
  store.on("refused", ({ message }) => chat.notice(`“${titleOf(chat.conversation)}” is shown, but not kept. ${message}`));
  store.on("reloaded", ({ conversation, isSame }) => {
    if (conversation !== chat.conversation) return;
    chat.showAgain(conversation);
    if (!isSame) chat.notice("Another tab has changed this conversation. You see it as it is now.");
  });
  store.on("copied", ({ conversation, from }) => {
    chat.isAway = false;
    if (conversation !== chat.conversation) return;
    chat.composer.rename(conversation.id);
    chat.show(conversation);
    if (from) chat.notice("Another tab has changed this conversation. Nothing is lost: yours goes on here, as one of its own. ", button("Open the other", "", () => chat.go(from)));
    else chat.notice("This conversation was deleted in another tab. Yours goes on here.");
  });
  store.on("changed", ({ id }) => {
    clearTimeout(chat.looking);
    chat.looking = setTimeout(() => chat.lookAgain(id), 500);
  });
}

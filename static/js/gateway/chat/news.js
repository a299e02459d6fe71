// @ts-check
// What the store says of conversations, this tab's and others', and what the page makes of it.

import { button } from "../../page/dom.js";
import { putInAddress } from "./page.js";
import { titleOf } from "./store.js";

/** @import { Chat } from "./chat.js" */

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

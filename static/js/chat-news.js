// What the store says of conversations, this tab's and others', and what the page makes of it.

import { button } from "./chat-dom.js";
import { titleOf } from "./chat-store.js";

export function hear(chat) {
  const on = (name, hear) => chat.store.addEventListener(name, ({ detail }) => hear(detail));
  on("kept", ({ conversation }) => {
    chat.list.put(conversation);
    if (conversation === chat.conversation) {
      chat.address(conversation.id, true);
      if (chat.isAway) chat.notice();
    }
    chat.isAway = false;
  });
  on("away", ({ message }) => {
    chat.isAway = true;
    chat.notice(message);
  });
  on("refused", ({ message }) => chat.notice(`“${titleOf(chat.conversation)}” is shown, but not kept. ${message}`));
  on("reloaded", ({ conversation }) => {
    if (conversation !== chat.conversation) return;
    chat.show(conversation);
    chat.notice("Another tab has changed this conversation. You see it as it is now.");
  });
  on("copied", ({ conversation, from }) => {
    chat.isAway = false;
    if (conversation !== chat.conversation) return;
    chat.show(conversation);
    if (from) chat.notice("Another tab has changed this conversation. Nothing is lost: yours goes on here, as one of its own. ", button("Open the other", "", () => chat.go(from)));
    else chat.notice("This conversation was deleted in another tab. Yours goes on here.");
  });
  on("changed", ({ id }) => {
    clearTimeout(chat.looking);
    chat.looking = setTimeout(() => chat.lookAgain(id), 500);
  });
}

// @ts-check
// The dialog in which a conversation is shared by a link, or no more.

import { element } from "../../page/dom.js";
import { show } from "../../page/dialog.js";
import { copy } from "../../page/clipboard.js";

/** @import { Store } from "./store.js" */

export class Share {
  /** @param {{conversation: Chat.Conversation, store: Store, changed: () => void, say: (text: string) => void}} parts */
  constructor({ conversation, store, changed, say }) {
    this.conversation = conversation;
    this.store = store;
    this.changed = changed;
    this.say = say;
    this.panel = element("div", "share-panel");
    this.draw();
    show(this.panel);
  }

  draw() {
    const { conversation, panel } = this;
    const title = Object.assign(element("h2", "", "Share this conversation"), { id: "dialog-title" });
    const closing = Object.assign(element("button", "", "Close"), { type: "button" });
    closing.dataset.close = "";
    if (!conversation.shared) {
      const making = Object.assign(element("button", "primary", "Make a link"), { type: "button" });
      making.addEventListener("click", () => this.act("share"));
      panel.replaceChildren(
        title,
        element("p", "", "Anyone who can log in here and has the link can read it, including what is said in it from now on."),
        element("p", "actions", making, closing),
      );
      return;
    }
    const link = Object.assign(document.createElement("input"), { readOnly: true, value: new URL(conversation.shared, location.href).href });
    link.setAttribute("aria-label", "Link to this conversation");
    const copied = Object.assign(element("button", "primary", "Copy"), { type: "button", ariaLabel: "Copy the link" });
    copied.addEventListener("click", async () => {
      copied.textContent = (await copy(link.value)) ? "Copied" : "Not copied";
    });
    const ending = Object.assign(element("button", "danger", "Stop sharing"), { type: "button" });
    ending.addEventListener("click", () => this.act("unshare"));
    panel.replaceChildren(
      title,
      element("p", "", "Anyone who can log in here can read it by this link."),
      element("p", "share-row", link, copied),
      element("p", "actions", ending, closing),
    );
    link.select();
  }

  /** @param {"share" | "unshare"} verb */
  async act(verb) {
    const { conversation } = this;
    try {
      const answer = await this.store.ask(`${conversation.id}/${verb}/`, { method: "POST" });
      conversation.shared = answer?.link ?? "";
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error));
    }
    this.changed();
    this.draw();
  }
}

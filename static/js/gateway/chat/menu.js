// @ts-check
// The menus above a conversation: sharing it by a link, having it as a file, and where it is compared.

import { button, element } from "../../page/dom.js";
import { FORMS, TOGETHER, download, downloadTogether } from "./export.js";
import { copy } from "../../page/clipboard.js";
import { find } from "../../page/parts.js";

/** @import { Asked } from "./export.js" */
/** @import { Store } from "./store.js" */

/** @template {object} T @param {T} forms */
const namesOf = (forms) => /** @type {(keyof T)[]} */ (Object.keys(forms));

// `current` gives the open conversation, `asked` what the page would send now, `columns` those of a
// comparison, of which the open one is the first, `server` the one that is chosen.
export class Menus {
  /**
   * @param {{
   *   share: HTMLDetailsElement,
   *   files: HTMLDetailsElement,
   *   compare?: HTMLAnchorElement | null,
   *   server?: () => string,
   *   store: Store,
   *   current: () => Chat.Conversation,
   *   asked: () => Asked,
   *   columns?: (() => Chat.Settled[]) | null,
   *   say: (text: string) => void,
   * }} parts
   */
  constructor({ share, files, compare = null, server = () => "", store, current, asked, columns = null, say }) {
    this.share = share;
    this.files = files;
    this.compare = compare;
    this.server = server;
    this.store = store;
    this.current = current;
    this.say = say;
    for (const menu of [share, files]) this.fold(menu);
    share.addEventListener("toggle", () => share.open && this.drawShare());
    const forms = namesOf(FORMS).map((form) => {
      const { title } = FORMS[form];
      return this.form(columns ? `Column A: ${title}` : title, () => download(current(), form, asked()));
    });
    const together = !columns ? [] : namesOf(TOGETHER).map((form) => this.form(TOGETHER[form].title, () => downloadTogether(current(), columns(), form)));
    find(files, ".drop-panel", HTMLElement).append(...together, ...forms);
  }

  /** @param {string} title @param {() => void} have */
  form(title, have) {
    return button(title, "", () => {
      have();
      this.files.open = false;
    });
  }

  // A menu goes as menus do: by Escape, or a click elsewhere.
  /** @param {HTMLDetailsElement} menu */
  fold(menu) {
    document.addEventListener("click", (event) => {
      if (!(event.target instanceof Node && menu.contains(event.target))) menu.open = false;
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      event.preventDefault();
      menu.open = false;
      find(menu, "summary", HTMLElement).focus();
    });
  }

  // Only what was said can be shared or had.
  refresh() {
    const hasNothing = !this.current().messages.length;
    for (const menu of [this.share, this.files]) {
      menu.hidden = hasNothing;
      if (hasNothing) menu.open = false;
    }
    find(this.share, "summary", HTMLElement).textContent = this.current().shared ? "Shared" : "Share";
    if (!this.compare) return;
    // The first column asks the server that is chosen here.
    const server = this.server();
    const query = new URLSearchParams(hasNothing ? {} : { from: this.current().id });
    if (server) query.set("server", server);
    this.compare.search = `${query}`;
  }

  drawShare() {
    const conversation = this.current();
    const panel = find(this.share, ".drop-panel", HTMLElement);
    if (!conversation.shared) {
      panel.replaceChildren(
        element("p", "", "Whoever may log in here and has the link can read this conversation, also what is said in it from now on."),
        button("Make a link", "", () => this.act("share")),
      );
      return;
    }
    const link = Object.assign(document.createElement("input"), { readOnly: true, value: new URL(conversation.shared, location.href).href });
    link.setAttribute("aria-label", "Link to this conversation");
    const copied = button("Copy", "Copy the link", async () => {
      copied.textContent = (await copy(link.value)) ? "Copied" : "Not copied";
    });
    panel.replaceChildren(
      element("p", "", "Whoever may log in here can read it by this link."),
      element("p", "drop-row", link, copied),
      button("Share no more", "", () => this.act("unshare")),
    );
    link.select();
  }

  /** @param {"share" | "unshare"} verb */
  async act(verb) {
    const conversation = this.current();
    try {
      const answer = await this.store.ask(`${conversation.id}/${verb}/`, { method: "POST" });
      conversation.shared = answer?.link ?? "";
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error));
    }
    this.refresh();
    this.drawShare();
  }
}

// @ts-check
// The menu above a conversation: sharing it by a link, having it as a file, and where it is compared.

import { button } from "../../page/dom.js";
import { byId } from "../../page/parts.js";
import { fetchPart, fetchStyle, quietly } from "../../page/fetch-part.js";

/** @import { Asked, Form, TogetherForm } from "./export.js" */
/** @import { Store } from "./store.js" */

/** As in export.js, which comes with the first of them. @type {Record<Form, string>} */
const FORMS = { markdown: "Markdown", json: "JSON", curl: "curl", python: "Python (openai)" };
/** @type {Record<TogetherForm, string>} */
const TOGETHER = { markdown: "All columns: Markdown", json: "All columns: JSON" };

/** @template {object} T @param {T} forms */
const namesOf = (forms) => /** @type {(keyof T)[]} */ (Object.keys(forms));

// `current` gives the open conversation, `asked` what the page would send now, `columns` those of a
// comparison, of which the open one is the first, `server` the one that is chosen.
export class Menus {
  /**
   * @param {{
   *   compare?: HTMLAnchorElement | null,
   *   server?: () => string,
   *   store: Store,
   *   current: () => Chat.Conversation,
   *   asked: () => Asked,
   *   columns?: (() => Chat.Settled[]) | null,
   *   say: (text: string) => void,
   * }} parts
   */
  constructor({ compare = null, server = () => "", store, current, asked, columns = null, say }) {
    this.root = byId("chat-menu", HTMLElement);
    this.kept = byId("chat-files-menu", HTMLElement);
    this.compare = compare;
    this.server = server;
    this.store = store;
    this.current = current;
    this.say = say;
    byId("chat-share", HTMLElement).addEventListener("click", () => {
      this.root.hidePopover();
      quietly(this.share());
    });
    const load = () => fetchPart("makes files", () => import("./export.js"));
    const forms = namesOf(FORMS).map((form) =>
      this.form(columns ? `Column A: ${FORMS[form]}` : FORMS[form], async () => (await load()).download(current(), form, asked())),
    );
    const together = !columns ? [] : namesOf(TOGETHER).map((form) =>
      this.form(TOGETHER[form], async () => (await load()).downloadTogether(current(), columns(), form)),
    );
    byId("chat-export", HTMLElement).append(...together, ...forms);
  }

  /** @param {string} title @param {() => Promise<void>} have */
  form(title, have) {
    const made = button(title, "", () => {
      this.root.hidePopover();
      quietly(have());
    });
    made.className = "";
    return made;
  }

  async share() {
    const load = () => Promise.all([import("./share.js"), fetchStyle("gateway/chat-menus.css")]);
    const [{ Share }] = await fetchPart("shares conversations", load);
    const conversation = this.current();
    new Share({ conversation, store: this.store, changed: () => this.refresh(), say: this.say });
  }

  // Only what was said can be shared or had.
  refresh() {
    const hasNothing = !this.current().messages.length;
    this.kept.hidden = hasNothing;
    byId("chat-share", HTMLElement).textContent = this.current().shared ? "Shared" : "Share";
    if (!this.compare) return;
    // The first column asks the server that is chosen here.
    const server = this.server();
    const query = new URLSearchParams(hasNothing ? {} : { from: this.current().id });
    if (server) query.set("server", server);
    this.compare.search = `${query}`;
  }
}

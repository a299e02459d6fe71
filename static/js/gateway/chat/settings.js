// @ts-check
// What is set for a conversation: parameters, tools and schema. Their fields, and what checks them,
// come when somebody looks at them or something is set.

import { fetchPart, fetchStyle, quietly } from "../../page/fetch-part.js";

/** @import { Panel } from "./panel.js" */

// "change": something is set otherwise now; "refresh": whether one may send may have changed.
export class Settings extends EventTarget {
  /** @type {Chat.Settings} */
  kept = { params: {}, tools: null, schema: null };
  /** @type {Panel | null} */
  panel = null;
  /** @type {Promise<void> | null} */
  loading = null;

  /** @param {{servers: Chat.Choice, csrf: {toString(): string}, presets: string | undefined}} parts */
  constructor(parts) {
    super();
    this.parts = parts;
  }

  // Once; again after it has failed.
  load() {
    this.loading ??= this.fetch().catch((error) => {
      this.loading = null;
      throw error;
    });
    return this.loading;
  }

  async fetch() {
    const load = () => Promise.all([import("./panel.js"), fetchStyle("gateway/chat-beside.css")]);
    const [{ Panel }] = await fetchPart("sets parameters", load);
    document.getElementById("chat-params")?.toggleAttribute("data-loaded", true);
    this.panel = new Panel(this.parts);
    this.panel.open(this.kept);
    this.panel.addEventListener("change", () => this.dispatchEvent(new Event("change")));
    this.dispatchEvent(new Event("refresh"));
  }

  /** @param {Chat.Settings} settings */
  open({ params, tools, schema }) {
    this.kept = { params, tools, schema };
    if (this.panel) this.panel.open(this.kept);
    else if (isSet(this.kept)) quietly(this.load());
  }

  /** @returns {Chat.Settings} */
  get values() {
    return this.panel?.values ?? this.kept;
  }

  get problem() {
    if (this.panel) return this.panel.problem;
    return isSet(this.kept) ? "The parameters of this conversation are being loaded." : "";
  }

  // What goes to the engine beside the messages.
  get request() {
    return this.panel?.request ?? {};
  }
}

/** @param {Partial<Chat.Settings>} settings */
export const isSet = ({ params = {}, tools, schema }) =>
  Boolean(tools || schema || Object.values(params).some((value) => String(value).trim()));

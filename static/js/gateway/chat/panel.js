// @ts-check
// The fields beside a conversation: parameters, tools, schema, presets, and what the chosen server's
// profile lacks.

import { Abilities } from "./abilities.js";
import { Parameters } from "./params.js";
import { Presets } from "./presets.js";
import { Schema } from "./schema.js";
import { Tools } from "./tools.js";
import { partsOf } from "../../page/parts.js";

const $ = partsOf({
  "chat-params-form": HTMLFormElement,
  "chat-presets": HTMLElement,
  "tools-text": HTMLTextAreaElement,
  "tools-choice": HTMLSelectElement,
  "tools-text-problem": HTMLElement,
  "tools-example": HTMLElement,
  "tools-badge": HTMLElement,
  "tools-lack": HTMLElement,
  "schema-mode": HTMLSelectElement,
  "schema-text": HTMLTextAreaElement,
  "schema-area": HTMLElement,
  "schema-text-problem": HTMLElement,
  "schema-examples": HTMLSelectElement,
  "schema-badge": HTMLElement,
  "chat-lacks": HTMLElement,
});

// "change": something is set otherwise now.
export class Panel extends EventTarget {
  /** @param {{servers: Chat.Choice, csrf: {toString(): string}, presets: string | undefined}} parts */
  constructor({ servers, csrf, presets }) {
    super();
    this.servers = servers;
    this.parameters = new Parameters($("chat-params-form"));
    this.tools = new Tools({
      text: $("tools-text"), choice: $("tools-choice"), problem: $("tools-text-problem"), example: $("tools-example"), badge: $("tools-badge"),
    });
    this.schema = new Schema({
      mode: $("schema-mode"), text: $("schema-text"), area: $("schema-area"), problem: $("schema-text-problem"), examples: $("schema-examples"), badge: $("schema-badge"),
    });
    this.abilities = new Abilities({ panel: $("chat-lacks"), csrf });
    this.presets = new Presets({ root: $("chat-presets"), url: presets, csrf, servers, now: () => this.values });
    for (const part of [this.parameters, this.tools, this.schema]) part.addEventListener("change", () => this.changed());
    this.presets.picks((picked) => {
      this.open(picked);
      this.changed();
    });
    servers.addEventListener("change", () => this.look());
    this.look();
  }

  changed() {
    this.missed();
    this.dispatchEvent(new Event("change"));
  }

  // What the chosen server is, whether or not it is ready.
  look() {
    const server = this.servers.find(this.servers.wanted);
    this.parameters.engine = server?.engine;
    this.abilities.server = server;
    this.missed();
  }

  // Tools that the engine will not read are said before anything is sent.
  missed() {
    $("tools-lack").replaceChildren(this.tools.value ? this.abilities.hint("tools") : "");
  }

  /** @param {Chat.Settings} settings */
  open({ params, tools, schema }) {
    this.parameters.values = params;
    this.tools.value = tools;
    this.schema.value = schema;
    this.missed();
  }

  /** @returns {Chat.Settings} */
  get values() {
    return { params: this.parameters.values, tools: this.tools.value, schema: this.schema.value };
  }

  get problem() {
    return this.parameters.check() || this.tools.check() || this.schema.check();
  }

  get request() {
    return { ...this.tools.request, ...this.schema.request, ...this.parameters.request };
  }
}

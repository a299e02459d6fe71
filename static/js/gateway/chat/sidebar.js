// @ts-check
// What stands beside a conversation: parameters, tools, schema, the next question's pictures, and
// what the chosen server can do.

import { Abilities } from "./abilities.js";
import { Images } from "./images.js";
import { Schema } from "./schema.js";
import { Tools } from "./tools.js";
import { partsOf } from "../../page/parts.js";

/** @import { Parameters } from "./params.js" */

const $ = partsOf({
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
  "chat-files": HTMLInputElement,
  "chat-attach": HTMLElement,
  "chat-pictures": HTMLElement,
  "chat-input": HTMLElement,
  "chat-middle": HTMLElement,
  "chat-pictures-note": HTMLElement,
  "chat-lacks": HTMLElement,
});

// "change": tools or schema are others now; "refresh": whether one may send may have changed.
export class Beside extends EventTarget {
  /** @param {{parameters: Parameters, servers: Chat.Choice, csrf: {toString(): string}}} parts */
  constructor({ parameters, servers, csrf }) {
    super();
    this.parameters = parameters;
    this.servers = servers;
    this.tools = new Tools({
      text: $("tools-text"), choice: $("tools-choice"), problem: $("tools-text-problem"), example: $("tools-example"), badge: $("tools-badge"),
    });
    this.schema = new Schema({
      mode: $("schema-mode"), text: $("schema-text"), area: $("schema-area"), problem: $("schema-text-problem"), examples: $("schema-examples"), badge: $("schema-badge"),
    });
    this.images = new Images({
      input: $("chat-files"), choose: $("chat-attach"), list: $("chat-pictures"), area: $("chat-input"), drop: $("chat-middle"), note: $("chat-pictures-note"),
    });
    this.abilities = new Abilities({ panel: $("chat-lacks"), csrf });
    for (const part of [this.tools, this.schema]) part.addEventListener("change", () => this.changed());
    this.images.addEventListener("change", () => this.dispatchEvent(new Event("refresh")));
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
    this.images.isTaken = this.abilities.images;
    this.missed();
  }

  // Tools that the engine will not read are said before anything is sent.
  missed() {
    $("tools-lack").replaceChildren(this.tools.value ? this.abilities.hint("tools") : "");
  }

  /** @param {Chat.Beside} kept */
  open({ tools, schema }) {
    this.tools.value = tools;
    this.schema.value = schema;
    this.missed();
  }

  /** @returns {Chat.Beside} */
  get values() {
    return { tools: this.tools.value, schema: this.schema.value };
  }

  get problem() {
    return this.parameters.check() || this.tools.check() || this.schema.check() || this.images.problem;
  }

  get request() {
    return { ...this.tools.request, ...this.schema.request, ...this.parameters.request };
  }
}

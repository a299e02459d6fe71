// @ts-check
// One column of a comparison: which server it asks, with which parameters, and its conversation.

import { newAnswer } from "../chat/store.js";
import { button, element, iconButton } from "../../page/dom.js";
import { icon } from "../../page/toast.js";
import { Picker } from "../chat/picker.js";
import { Servers } from "../chat/servers.js";
import { follow } from "../chat/versions.js";

/** @import { Turn } from "./turns.js" */
/** @typedef {typeof import("./talk.js")} Talk */

/**
 * @typedef {{
 *   url: string,
 *   csrf: {toString(): string},
 *   talk: Talk,
 *   turn: Turn<Column>,
 *   keep: () => void,
 *   isLeaving: () => boolean,
 * }} How
 */

/** @type {Record<string, string>} */
const SHORT = { system: "own system prompt", extra: "extra parameters" };
const LONGEST = 24; // characters of a parameter's value

// "change": its server is another one, or in another state. "choose": a person is at it.
// "open", "remove", "stop": a person has pressed that; open is for its parameters.
export class Column extends EventTarget {
  title = "";
  problem = "";
  /** What goes to the engine beside the messages. @type {Record<string, unknown>} */
  request = {};
  /** Of the answer that is arriving. @type {AbortController | null} */
  controller = null;
  /** Its choice beside the comparison. @type {HTMLInputElement | null} */
  choice = null;
  /** The run that is asked. @type {number | undefined} */
  run;

  /**
   * @param {{
   *   list: HTMLElement,
   *   here: string,
   *   preselected: string,
   *   conversation: Chat.Conversation,
   *   params?: Chat.Params,
   *   tools?: Chat.ToolsText | null,
   *   schema?: Chat.SchemaText | null,
   * }} parts
   */
  constructor({ list, here, preselected, conversation, params = {}, tools = null, schema = null }) {
    super();
    this.params = params;
    this.tools = tools;
    this.schema = schema;
    this.conversation = conversation;
    /** @param {string} name */
    const tell = (name) => () => this.dispatchEvent(new Event(name));
    this.letter = button("", "", tell("open"));
    this.letter.className = "letter";
    const place = element("div", "picker");
    this.stopping = iconButton(icon("stop"), "Stop", tell("stop"));
    this.removing = iconButton(icon("close"), "Remove", tell("remove"));
    this.settings = element("p", "note settings");
    this.trouble = element("p", "hint attention");
    this.root = element(
      "section", "compare-head",
      element("div", "compare-head-row", this.letter, place, this.stopping, this.removing), this.settings, this.trouble,
    );
    this.servers = new Servers({ list, here, preselected });
    this.picker = new Picker(place, this.servers);
    this.picker.addEventListener("pick", tell("choose"));
    this.servers.addEventListener("change", () => this.dispatchEvent(new Event("change")));
  }

  get server() {
    return this.servers.find(this.servers.wanted);
  }

  /** @returns {Chat.Settings} */
  get values() {
    return { params: this.params, tools: this.tools, schema: this.schema };
  }

  /** @param {{title: string, isShown: boolean, isOnly: boolean, isRunning: boolean, hasBegun: boolean}} how */
  draw({ title, isShown, isOnly, isRunning, hasBegun }) {
    this.title = title;
    this.root.setAttribute("aria-label", `Column ${title}`);
    this.root.classList.toggle("shown", isShown);
    this.letter.textContent = title;
    this.letter.setAttribute("aria-label", `Parameters of column ${title}`);
    this.letter.setAttribute("aria-pressed", String(isShown));
    this.picker.title = `Server of column ${title}`;
    this.picker.isDisabled = isRunning;
    this.picker.draw();
    this.removing.ariaLabel = this.removing.title = `Remove column ${title}`;
    this.removing.hidden = isOnly || hasBegun || isRunning;
    this.stopping.ariaLabel = this.stopping.title = `Stop column ${title}`;
    this.stopping.hidden = !this.controller;
    this.settings.textContent = this.summary;
    this.settings.title = this.summary;
    this.trouble.textContent = this.problem || (this.server ? this.servers.problem : ""); // else its list says so
  }

  // What is set, in a line.
  get summary() {
    const set = Object.entries(this.params).filter(([, value]) => String(value).trim());
    const words = set.map(([name, value]) => SHORT[name] ?? `${name.replaceAll("_", " ")} ${shortened(value)}`);
    if (this.tools) words.push("tools");
    if (this.schema?.mode) words.push(this.schema.mode === "json" ? "any JSON" : "schema");
    return words.length ? words.join(" · ") : "engine’s defaults";
  }

  // What the engine is told before all else: the column's own, or the one of all columns.
  /** @param {string} shared */
  tell(shared) {
    const own = this.params.system ?? "";
    const system = own.trim() ? own : shared;
    const { system: _own, ...others } = this.params;
    this.conversation.params = system.trim() ? { ...others, system } : others;
    Object.assign(this.conversation, { tools: this.tools, schema: this.schema });
  }

  // The answer that is to come; why there can be none, where that is so.
  expect() {
    const server = this.servers.chosen;
    const message = newAnswer(server ?? this.server ?? { slug: "", url: "", model: "" });
    if (!server) Object.assign(message, { running: false, error: { message: this.servers.problem, detail: "" } });
    this.conversation.server = message.server || this.conversation.server;
    this.run = server?.run;
    follow(this.conversation, message);
    return message;
  }

  /** @param {Chat.Answer} message @param {How} how */
  async ask(message, { url, csrf, talk, turn, keep, isLeaving }) {
    const { messages } = this.conversation;
    const signal = this.controller?.signal;
    if (!signal) throw new TypeError(`Column ${this.title} is asked, and nobody could stop it.`);
    /** @type {Chat.Body} */
    const body = {
      run: this.run,
      messages: talk.history({ ...this.conversation, messages: messages.slice(0, messages.indexOf(message)) }),
      params: this.request,
    };
    const view = () => ({ wait: (/** @type {string} */ text) => turn.views.get(message)?.wait?.(text), update: () => turn.drawn(message) });
    await talk.receive({ url, csrf, body, signal, message, view, keep, isLeaving });
    message.running = false;
  }
}

/** @param {string} text */
const shortened = (text) => {
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line;
};

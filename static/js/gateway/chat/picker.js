// @ts-check
// The choice of a model: a button that says which and in which state. Its list comes when it is opened.

import { count, element } from "../../page/dom.js";
import { fetchPart, fetchStyle, quietly } from "../../page/fetch-part.js";
import { icon } from "../../page/toast.js";
import { stateOf } from "./servers.js";

/** @import { PickerList } from "./picker-list.js" */
/** @import { Servers } from "./servers.js" */

/** @type {Record<string, string>} */
const ENGINES = { vllm: "vLLM", sglang: "SGLang", llamacpp: "llama.cpp" };
export const STARTING = ["queued", "pulling", "creating", "starting", "draining", "stopping"];

// "pick": a person is at it.
export class Picker extends EventTarget {
  drawn = ""; // what the button says
  /** @type {PickerList | null} */
  list = null;

  /** @param {HTMLElement} place @param {Servers} servers @param {string} [title] */
  constructor(place, servers, title = "Server") {
    super();
    this.servers = servers;
    this.title = title;
    this.button = element("button", "picker-button");
    this.button.type = "button";
    this.button.setAttribute("aria-haspopup", "dialog");
    this.menu = element("div", "menu picker-menu", element("p", "note", "Loading…"));
    this.menu.popover = "auto";
    this.menu.role = "dialog";
    this.menu.ariaLabel = "Choose a model";
    this.button.popoverTargetElement = this.menu;
    place.replaceChildren(this.button, this.menu);
    this.menu.addEventListener("toggle", (event) => event instanceof ToggleEvent && quietly(this.toggled(event.newState === "open")));
    servers.addEventListener("change", () => this.draw());
    this.draw();
  }

  /** @param {boolean} isOpen */
  async toggled(isOpen) {
    this.button.ariaExpanded = String(isOpen);
    if (!isOpen) return;
    this.dispatchEvent(new Event("pick"));
    const load = () => Promise.all([import("./picker-list.js"), fetchStyle("gateway/chat-menus.css")]);
    const [{ PickerList }] = await fetchPart("lists models", load);
    this.list ??= new PickerList(this);
    if (this.menu.matches(":popover-open")) this.list.open();
  }

  set isDisabled(/** @type {boolean} */ is) {
    this.button.disabled = is;
    if (is && this.menu.matches(":popover-open")) this.menu.hidePopover();
  }

  draw() {
    const server = this.servers.find(this.servers.wanted);
    const text = server ? server.model || server.slug : "No server is ready";
    const key = `${this.title} ${server?.slug} ${text} ${server?.isReady} ${server && stateOf(server)} ${server?.context}`;
    if (this.drawn !== key) {
      this.drawn = key;
      const name = element("span", "visually-hidden", `${this.title}: ${server ? `${server.slug}, ` : ""}`);
      const length = server ? context(server) : "";
      this.button.title = server ? [server.slug, engineOf(server), length].filter(Boolean).join(" · ") : "";
      this.button.replaceChildren(
        name, ...(server ? [badge(server)] : []), element("span", "picker-name", text),
        ...(length ? [element("span", "picker-context", length)] : []), icon("chevron"),
      );
    }
    if (this.menu.matches(":popover-open")) this.list?.draw();
  }
}

/** @param {Chat.Server} server */
export const engineOf = ({ engine }) => ENGINES[engine] ?? engine;

// Colour and shape; the word, too, where there is room.
/** @param {Chat.Server} server @param {boolean} [hasWord] */
export function badge(server, hasWord = false) {
  const state = server.isReady ? "ready" : stateOf(server);
  const tone = server.isReady ? "ready" : STARTING.includes(server.state) ? "working" : server.state === "failed" ? "failed" : "note";
  return element("span", `badge ${tone}`, hasWord || !server.isReady ? state : element("span", "visually-hidden", state));
}

/** @param {Chat.Server} server @param {string} [word] */
export const context = ({ context: tokens }, word = "") =>
  tokens ? `${tokens >= 1000 ? `${count(Math.round(tokens / 1024))}k` : tokens} ${word}`.trim() : "";

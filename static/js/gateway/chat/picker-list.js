// @ts-check
// The models to choose from, with a field to search in. The field keeps the focus;
// aria-activedescendant tells which model is meant.

import { all, around } from "../../page/parts.js";
import { element } from "../../page/dom.js";
import { icon } from "../../page/toast.js";
import { STARTING, badge, context, engineOf } from "./picker.js";

/** @import { Picker } from "./picker.js" */

let number = 0;

export class PickerList {
  active = -1;

  /** @param {Picker} picker */
  constructor(picker) {
    this.picker = picker;
    this.servers = picker.servers;
    const id = `picker-${number++}`;
    const words = "Search models and servers";
    this.field = Object.assign(element("input"), { type: "text", placeholder: words, autocomplete: "off", spellcheck: false });
    this.field.role = "combobox";
    this.field.ariaLabel = words;
    this.field.ariaExpanded = "true";
    this.field.setAttribute("aria-controls", id);
    this.list = Object.assign(element("div", "picker-list"), { id, role: "listbox", ariaLabel: "Models" });
    this.none = element("p", "note", "No model has this in its name.");
    picker.menu.replaceChildren(this.field, this.list, this.none);
    this.field.addEventListener("input", () => this.draw());
    this.field.addEventListener("keydown", (event) => this.key(event));
    // Pressing must not take the focus from the field.
    this.list.addEventListener("mousedown", (event) => event.preventDefault());
    this.list.addEventListener("click", (event) => this.choose(around(event, "[role=option]", HTMLElement)));
  }

  open() {
    this.field.value = "";
    this.draw();
    this.field.focus();
  }

  // Those that can answer first; of boxes that are not reached only the chosen one.
  get shown() {
    const words = this.field.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const { here, wanted } = this.servers;
    return this.servers.all
      .filter(({ box, slug }) => here.has(box) || slug === wanted)
      .filter((server) => words.every((word) => `${server.slug} ${server.model} ${server.on} ${engineOf(server)}`.toLowerCase().includes(word)))
      .sort((one, other) => rank(one) - rank(other));
  }

  draw() {
    const before = this.options[this.active]?.dataset.slug ?? this.servers.wanted;
    const { shown } = this;
    this.list.replaceChildren(...shown.map((server, at) => this.option(server, at)));
    this.none.hidden = shown.length > 0;
    this.list.hidden = !shown.length;
    const at = shown.findIndex(({ slug }) => slug === before);
    this.mark(at < 0 && shown.length ? 0 : at);
  }

  /** @param {Chat.Server} server @param {number} at */
  option(server, at) {
    const isOneBox = new Set(this.servers.all.map(({ on }) => on)).size < 2;
    const about = [server.model && server.model !== server.slug ? server.slug : "", isOneBox ? "" : server.on, engineOf(server), context(server, "context")];
    if (server.tools === "true") about.push("tools");
    if (server.images === "true") about.push("pictures");
    const made = element(
      "div", "picker-option",
      badge(server, true), element("strong", "", server.model || server.slug), element("span", "quiet", about.filter(Boolean).join(" · ")),
      ...(server.slug === this.servers.wanted ? [icon("check")] : []),
    );
    made.role = "option";
    made.id = `${this.list.id}-${at}`;
    made.dataset.slug = server.slug;
    return made;
  }

  get options() {
    return all(this.list, "[role=option]", HTMLElement);
  }

  /** @param {number} at */
  mark(at) {
    this.active = at;
    const { options } = this;
    for (const [place, option] of options.entries()) option.ariaSelected = String(place === at);
    const option = options[at];
    if (option) this.field.setAttribute("aria-activedescendant", option.id);
    else this.field.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({ block: "nearest" });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.isComposing) return;
    const last = this.options.length - 1;
    if (event.key === "ArrowDown") this.mark(this.active < last ? this.active + 1 : 0);
    else if (event.key === "ArrowUp") this.mark(this.active > 0 ? this.active - 1 : last);
    else if (event.key === "Enter") this.choose(this.options[this.active] ?? null);
    else return;
    event.preventDefault();
  }

  /** @param {HTMLElement | null} option */
  choose(option) {
    if (!option) return;
    this.picker.menu.hidePopover();
    this.picker.button.focus();
    this.servers.prefer(option.dataset.slug ?? "");
  }
}

/** @param {Chat.Server} server */
const rank = (server) => (server.isReady ? 0 : STARTING.includes(server.state) ? 1 : 2);

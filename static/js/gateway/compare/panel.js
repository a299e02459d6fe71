// @ts-check
// What stands beside a comparison: the parameters, tools and schema of one of its columns.

import { Settings, isSet } from "../chat/settings.js";
import { element } from "../../page/dom.js";
import { Side } from "../chat/side.js";
import { Standing } from "../chat/servers.js";
import { partsOf } from "../../page/parts.js";
import { quietly } from "../../page/fetch-part.js";

/** @import { Column } from "./column.js" */

const $ = partsOf({
  "chat-params": HTMLElement,
  "chat-params-button": HTMLElement,
  "chat-standings": HTMLElement,
  "compare-of": HTMLElement,
});

// The server of the column that is shown, as the playground's parts want the chosen one.
/** @implements {Chat.Choice} */
class Shown extends EventTarget {
  /** @type {Column | null} */
  column = null;

  get wanted() {
    return this.column?.servers.wanted ?? "";
  }

  /** @param {string} slug */
  find(slug) {
    return this.column?.servers.find(slug);
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }
}

// "edit": the column has other values now. "choose": another column is shown. "refresh": whether
// one may send may have changed.
export class ColumnPanel extends EventTarget {
  /** @param {{csrf: {toString(): string}, presets: string | undefined, place: HTMLElement}} parts */
  constructor({ csrf, presets, place }) {
    super();
    this.shown = new Shown();
    this.settings = new Settings({ servers: this.shown, csrf, presets });
    new Standing({ root: $("chat-standings"), servers: this.shown });
    this.settings.addEventListener("change", () => this.edited());
    this.settings.addEventListener("refresh", () => {
      if (this.column) this.read(this.column);
      this.dispatchEvent(new Event("refresh"));
    });
    this.side = new Side({
      panel: $("chat-params"), button: $("chat-params-button"), place, name: "params", opened: () => quietly(this.settings.load()),
    });
  }

  get column() {
    return this.shown.column;
  }

  /** @param {Column} column */
  choose(column) {
    if (this.column === column) return;
    this.shown.column = column;
    this.read(column);
    const presets = this.settings.panel?.presets;
    if (presets) presets.choice.value = "";
    this.shown.changed();
    if (column.choice) column.choice.checked = true;
    this.dispatchEvent(new Event("choose"));
  }

  // The same by hand: it is to be seen.
  /** @param {Column} column */
  open(column) {
    this.choose(column);
    this.side.show();
  }

  // Its fields alone know what a column would ask, or why it cannot; one without any asks for nothing.
  /** @param {Column} column */
  read(column) {
    const { panel } = this.settings;
    if (panel) panel.parameters.engine = column.server?.engine;
    this.settings.open(column);
    column.problem = this.settings.problem;
    if (!column.problem) column.request = this.settings.request;
  }

  // All columns, with their servers as they are now; the first that cannot ask.
  /** @param {Column[]} columns */
  async readAll(columns) {
    if (columns.some(isSet)) await this.settings.load();
    for (const column of columns) this.read(column);
    if (this.column) this.read(this.column);
    return columns.find(({ problem }) => problem);
  }

  edited() {
    if (this.column) Object.assign(this.column, { ...this.settings.values, problem: this.settings.problem });
    this.dispatchEvent(new Event("edit"));
  }

  // The column's server is another one, or in another state.
  /** @param {Column} column */
  heard(column) {
    if (column === this.column) this.shown.changed();
  }

  /** @param {Column[]} columns */
  offer(columns) {
    const choices = columns.map((column) => {
      const choice = Object.assign(element("input"), { type: "radio", name: "compare-of", value: column.title, checked: column === this.column });
      column.choice = choice;
      choice.addEventListener("change", () => this.choose(column));
      return element("label", "", choice, ` ${column.title}`);
    });
    $("compare-of").replaceChildren(element("legend", "", "Of column"), ...choices);
  }
}

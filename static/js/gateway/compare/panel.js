// @ts-check
// What stands beside a comparison: the parameters, tools and schema of one of its columns.

import { Beside } from "../chat/sidebar.js";
import { element } from "../../page/dom.js";
import { Parameters } from "../chat/params.js";
import { Presets } from "../chat/presets.js";
import { Standing } from "../chat/servers.js";
import { partsOf } from "../../page/parts.js";

/** @import { Column } from "./column.js" */

const $ = partsOf({
  "chat-params": HTMLDetailsElement,
  "chat-params-form": HTMLFormElement,
  "chat-presets": HTMLElement,
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
export class Panel extends EventTarget {
  /** @param {{csrf: {toString(): string}, presets: string | undefined}} parts */
  constructor({ csrf, presets }) {
    super();
    this.root = $("chat-params");
    this.parameters = new Parameters($("chat-params-form"));
    this.shown = new Shown();
    this.beside = new Beside({ parameters: this.parameters, servers: this.shown, csrf });
    this.presets = new Presets({
      root: $("chat-presets"), url: presets, csrf, servers: this.shown,
      now: () => ({ params: this.parameters.values, ...this.beside.values }),
    });
    new Standing({ root: $("chat-standings"), servers: this.shown });
    this.parameters.addEventListener("change", () => this.edited());
    this.beside.addEventListener("change", () => this.edited());
    this.beside.addEventListener("refresh", () => this.dispatchEvent(new Event("refresh")));
    this.presets.picks((detail) => {
      this.parameters.values = detail.params;
      this.beside.open(detail);
      this.edited();
    });
  }

  get column() {
    return this.shown.column;
  }

  get images() {
    return this.beside.images;
  }

  /** @param {Column} column */
  choose(column) {
    if (this.column === column) return;
    this.shown.column = column;
    this.read(column);
    this.presets.choice.value = "";
    this.shown.changed();
    if (column.choice) column.choice.checked = true;
    this.dispatchEvent(new Event("choose"));
  }

  // The same by hand: it is to be seen.
  /** @param {Column} column */
  open(column) {
    this.choose(column);
    this.root.open = true;
    this.root.scrollIntoView({ block: "nearest" });
  }

  // Its fields alone know what a column would ask, or why it cannot.
  /** @param {Column} column */
  read(column) {
    this.parameters.values = column.params;
    this.parameters.engine = column.server?.engine;
    this.beside.open(column);
    column.problem = this.beside.problem;
    if (!column.problem) column.request = this.beside.request;
  }

  // All columns, with their servers as they are now; the first that cannot ask.
  /** @param {Column[]} columns */
  readAll(columns) {
    for (const column of columns) this.read(column);
    if (this.column) this.read(this.column);
    return columns.find(({ problem }) => problem);
  }

  edited() {
    if (this.column) Object.assign(this.column, { params: this.parameters.values, ...this.beside.values, problem: this.beside.problem });
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

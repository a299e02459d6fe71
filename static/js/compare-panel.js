// What stands beside a comparison: the parameters, tools and schema of one of its columns.

import { Beside } from "./chat-beside.js";
import { element } from "./chat-dom.js";
import { Parameters } from "./chat-params.js";
import { Presets } from "./chat-presets.js";
import { Standing } from "./chat-standing.js";

const $ = (id) => document.getElementById(id);

// The server of the column that is shown, as the playground's parts want the chosen one.
class Shown extends EventTarget {
  column = null;

  get wanted() {
    return this.column?.servers.wanted ?? "";
  }

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
    this.presets.addEventListener("pick", ({ detail }) => {
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
  open(column) {
    this.choose(column);
    this.root.open = true;
    this.root.scrollIntoView({ block: "nearest" });
  }

  // Its fields alone know what a column would ask, or why it cannot.
  read(column) {
    this.parameters.values = column.params;
    this.parameters.engine = column.server?.engine;
    this.beside.open(column);
    column.problem = this.beside.problem;
    if (!column.problem) column.request = this.beside.request;
  }

  // All columns, with their servers as they are now; the first that cannot ask.
  readAll(columns) {
    for (const column of columns) this.read(column);
    this.read(this.column);
    return columns.find(({ problem }) => problem);
  }

  edited() {
    Object.assign(this.column, { params: this.parameters.values, ...this.beside.values, problem: this.beside.problem });
    this.dispatchEvent(new Event("edit"));
  }

  // The column's server is another one, or in another state.
  heard(column) {
    if (column === this.column) this.shown.changed();
  }

  offer(columns) {
    const choices = columns.map((column) => {
      column.choice = Object.assign(element("input"), { type: "radio", name: "compare-of", value: column.title, checked: column === this.column });
      column.choice.addEventListener("change", () => this.choose(column));
      return element("label", "", column.choice, ` ${column.title}`);
    });
    $("compare-of").replaceChildren(element("legend", "", "Of column"), ...choices);
  }
}

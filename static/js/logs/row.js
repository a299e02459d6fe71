// @ts-check
// One row's element. Untrusted text goes in by textContent and by nothing else.

import { prefix } from "./prefix.js";
import { runs } from "./terminal.js";

// Laying out a line of a megabyte takes a second; the rest of it is a click away.
const LONG = 4000;
// Where a line names no level.
/** @type {Record<string, [word: string, title: string]>} */
const STREAMS = {
  e: ["stderr", "standard error"],
  i: ["note", "a note by inferdash"],
};

// mark(number, text): where in it the searched text begins and ends, by turns; null: nowhere.
// address: of the page that shows this run; note(number): what is known of a line, see outline.js.
/**
 * @param {Log.Row} row
 * @param {Log.Marker | null} mark
 * @param {string} address
 * @param {((number: number) => Log.Note | undefined) | null} note
 */
export function rowElement(row, mark, address, note) {
  const { line } = row;
  const element = make("div", `log-row log-row-${line.stream}`);
  const said = note?.(line.number);
  if (said) element.classList.add(`is-${said.kind}`);
  const all = runs(line.text);
  const before = prefix(all.map((run) => run.text).join(""));
  const level = levelled(line.stream, before.level, said);
  element.append(numbered(line, address), timed(line.at), level, text(row, all, before, mark));
  if (said?.kind === "harmless") element.append(harmless(row, said.words));
  if (row.refreshes > 1) element.append(refreshed(row));
  return element;
}

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} name
 * @param {string} className
 * @param {string | number} [words]
 */
function make(name, className, words) {
  const element = document.createElement(name);
  element.className = className;
  if (words !== undefined) element.textContent = String(words);
  return element;
}

/** @param {Log.Line} line @param {string} address */
function numbered(line, address) {
  const link = make("a", "log-number", line.number);
  link.href = `${address}#L${line.number}`;
  link.dataset.number = String(line.number);
  link.tabIndex = -1;
  link.title = "Link to this line. With Shift: to all lines from the marked one to this one";
  return link;
}

/** @param {string} at */
function timed(at) {
  const when = new Date(at);
  /** @param {number} value */
  const two = (value) => String(value).padStart(2, "0");
  const time = make("time", "log-time", [when.getHours(), when.getMinutes(), when.getSeconds()].map(two).join(":"));
  time.dateTime = at;
  time.title = `${when.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" })} · ${at}`;
  return time;
}

// What is known of the line wins over what it says of itself.
/** @param {string} stream @param {string} level @param {Log.Note | undefined} said */
function levelled(stream, level, said) {
  const [word, title] = level ? [level, STREAMS[stream]?.[1] ?? ""] : (STREAMS[stream] ?? ["", ""]);
  const element = make("span", "log-level", said?.mark || word);
  element.title = said?.mark ? said.words : title;
  if (!said && level) element.classList.add(`is-${level.toLowerCase()}`);
  return element;
}

// The reason is there for who hovers, listens, or presses it.
/** @param {Log.Row} row @param {string} why */
function harmless(row, why) {
  const button = make("button", "log-harmless");
  button.type = "button";
  button.dataset.action = "why";
  button.dataset.line = String(row.line.number);
  button.title = why;
  tell(button, Boolean(row.line.isExplained));
  return button;
}

/** @param {HTMLElement} button @param {boolean} yes */
function tell(button, yes) {
  button.textContent = yes ? button.title : "harmless";
  button.ariaExpanded = String(yes);
}

// Says the reason, or keeps it to itself again; the button stays, and with it the focus.
/** @param {Log.Row} row @param {HTMLElement} button */
export function explain(row, button) {
  row.line.isExplained = !row.line.isExplained;
  row.height = undefined;
  tell(button, row.line.isExplained);
}

/** @param {Log.Row} row */
function refreshed(row) {
  const isFold = Boolean(row.line.periodic);
  const words = `${row.refreshes} ${isFold ? "like this" : "updates"}`;
  const button = make("button", "log-refreshes", words);
  button.type = "button";
  button.tabIndex = -1;
  button.dataset.action = isFold ? "fold" : "every-line";
  button.dataset.line = String(row.line.number);
  button.title = isFold ? "Show each of these lines" : "Show every refresh of this bar as a line";
  return button;
}

/** @param {Log.Row} row @param {Log.Run[]} all @param {Log.Prefix} before @param {Log.Marker | null} mark */
function text(row, all, before, mark) {
  const element = make("span", "log-text");
  const shown = row.line.isWhole ? all : cut(all, LONG);
  let parts = shown;
  for (const [from, to, part] of before.parts) parts = split(parts, [from, to], { part });
  if (mark) parts = split(parts, mark(row.line.number, shown.map((run) => run.text).join("")), { isFound: true });
  for (const run of parts) element.append(styled(run));
  const left = row.line.text.length - LONG;
  if (shown !== all) {
    const button = make("button", "log-whole", `… ${left.toLocaleString()} more characters`);
    button.type = "button";
    button.dataset.action = "whole";
    button.dataset.line = String(row.line.number);
    element.append(button);
  }
  return element;
}

/** @param {Log.Run[]} all @param {number} most */
function cut(all, most) {
  let length = 0;
  for (const [index, run] of all.entries()) {
    if (length + run.text.length > most) {
      const rest = { ...run, text: run.text.slice(0, most - length) };
      return [...all.slice(0, index), rest];
    }
    length += run.text.length;
  }
  return all;
}

// Splits runs at edges, where something begins and ends by turns: that in between is `more`.
/** @param {Log.Run[]} all @param {number[]} edges @param {Partial<Log.Run>} more */
function split(all, edges, more) {
  if (!edges.length) return all;
  /** @type {Log.Run[]} */
  const found = [];
  let start = 0;
  let edge = 0;
  for (const run of all) {
    let rest = run.text;
    for (let next = edges[edge]; next !== undefined && next < start + rest.length; next = edges[edge]) {
      const length = next - start;
      if (length) found.push({ ...run, text: rest.slice(0, length), ...(edge % 2 && more) });
      rest = rest.slice(length);
      start += length;
      edge += 1;
    }
    if (rest) found.push({ ...run, text: rest, ...(edge % 2 && more) });
    start += rest.length;
  }
  return found;
}

/** @param {Log.Run} run */
function styled({ text, style, isFound, part }) {
  /** @type {Node} */
  let node = document.createTextNode(text);
  if (isFound) {
    const mark = document.createElement("mark");
    mark.append(node);
    node = mark;
  }
  const names = classes(style);
  if (part) names.push(`log-${part}`);
  if (!names.length) return node;
  const span = make("span", names.join(" "));
  // Through the object model, which the page's security policy allows; never by attribute.
  if (typeof style.color === "string") span.style.setProperty("--log-color", style.color);
  if (typeof style.background === "string") {
    span.style.setProperty("--log-background", style.background);
  }
  span.append(node);
  return span;
}

/** @param {Log.Style} style */
function classes(style) {
  /** @type {string[]} */
  const names = [];
  for (const name of /** @type {const} */ (["bold", "dim", "italic", "underline", "strike", "inverse"])) {
    if (style[name]) names.push(`log-${name}`);
  }
  if (style.color !== undefined) {
    names.push(typeof style.color === "number" ? `log-f${style.color}` : "log-fx");
  }
  if (style.background !== undefined) {
    names.push(typeof style.background === "number" ? `log-b${style.background}` : "log-bx");
  }
  return names;
}

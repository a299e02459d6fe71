// @ts-check
// JSON with the place of what is wrong in it, and as a tree.

import { element } from "../../page/dom.js";

const AROUND = 40; // characters shown on either side of an error
const OPEN = 12; // entries up to which an object or a list is unfolded
const MOST = 500; // entries that are drawn of one

/**
 * What it says; or `says` why it is not JSON, which stops `at`.
 * @typedef {{value: unknown, says?: undefined, at?: undefined} | {value?: undefined, says: string, at: number}} Parsed
 */

/** @param {string} text @returns {Parsed} */
export function parse(text) {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    const at = place(wordsOf(error), text);
    const before = text.slice(0, at).split("\n");
    const where = text.trim() ? ` (line ${before.length}, column ${(before.at(-1) ?? "").length + 1})` : "";
    return { says: `${reason(text, at)}${where}.`, at };
  }
}

/** @param {string} message @param {string} text */
function place(message, text) {
  const position = message.match(/position (\d+)/);
  if (position) return Number(position[1]);
  const line = message.match(/line (\d+) column (\d+)/);
  if (!line && isToken(message)) return placeOfToken(text);
  if (!line) return text.length; // "Unexpected end of JSON input"
  const lines = text.split("\n").slice(0, Number(line[1]) - 1);
  return lines.reduce((sum, each) => sum + each.length + 1, 0) + Number(line[2]) - 1;
}

/** @param {string} message */
const isToken = (message) => /token|identifier/i.test(message);

// Some browsers name a wrong token without its place: the shortest beginning with one ends there.
/** @param {string} text */
function placeOfToken(text) {
  let good = 0;
  let bad = text.length;
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (isToken(problem(text.slice(0, middle)))) bad = middle;
    else good = middle;
  }
  return bad - 1;
}

/** @param {string} text */
function problem(text) {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return wordsOf(error);
  }
}

/** @param {unknown} error */
const wordsOf = (error) => (error instanceof Error ? error.message : String(error));

/** @param {string} text @param {number} at */
function reason(text, at) {
  if (!text.trim()) return "There is nothing, and JSON must be something";
  if (at >= text.trimEnd().length) return "It ends in the middle";
  return `${JSON.stringify(text[at])} may not stand there`;
}

// The text around an error, with its place marked.
/** @param {string} text @param {number} at */
export function excerpt(text, at) {
  const mark = element("mark", "json-place", text.slice(at, at + 1) || "▮");
  mark.setAttribute("aria-label", "here");
  const before = `${at > AROUND ? "…" : ""}${text.slice(Math.max(0, at - AROUND), at)}`;
  const after = `${text.slice(at + 1, at + AROUND)}${text.length > at + AROUND ? "…" : ""}`;
  return element("pre", "json-excerpt", before, mark, after);
}

// `wrong` maps the path of a value ("/languages/0/year") to what is wrong with it.
/** @param {unknown} value @param {{wrong?: Map<string, string>}} [how] */
export function tree(value, { wrong = new Map() } = {}) {
  const root = node("", value, "", wrong, 0);
  if (root instanceof HTMLDetailsElement) root.open = true;
  return element("div", "json-tree", root);
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {string} path
 * @param {Map<string, string>} wrong
 * @param {number} depth
 * @returns {HTMLElement}
 */
function node(name, value, path, wrong, depth) {
  const label = name === "" ? "" : element("span", "json-name", name);
  const says = wrong.get(path);
  const problem = says ? element("span", "json-wrong", says) : "";
  if (value === null || typeof value !== "object") {
    return element("div", "json-leaf", label, leaf(value), problem);
  }
  const entries = Object.entries(value);
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  const made = element("details", "json-node", element("summary", "", label, element("span", "json-size", size), problem));
  const isOnTheWay = [...wrong.keys()].some((each) => each.startsWith(`${path}/`));
  const draw = () => {
    if (made.childElementCount > 1) return;
    const shown = entries.slice(0, MOST).map(([key, each]) => node(key, each, `${path}/${escaped(key)}`, wrong, depth + 1));
    const rest = entries.length > MOST ? [element("p", "note", `… and ${entries.length - MOST} more`)] : [];
    made.append(element("div", "json-inside", ...shown, ...rest));
  };
  made.addEventListener("toggle", () => made.open && draw());
  if (isOnTheWay || (depth < 3 && entries.length <= OPEN)) {
    draw();
    made.open = true;
  }
  return made;
}

// As JSON pointers write it.
/** @param {string} key */
export const escaped = (key) => key.replaceAll("~", "~0").replaceAll("/", "~1");

/** @param {unknown} value */
function leaf(value) {
  return element("span", `json-value json-${value === null ? "null" : typeof value}`, JSON.stringify(value));
}

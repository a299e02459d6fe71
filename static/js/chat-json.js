// JSON with the place of what is wrong in it, and as a tree.

import { element } from "./chat-dom.js";

const AROUND = 40; // characters shown on either side of an error
const OPEN = 12; // entries up to which an object or a list is unfolded
const MOST = 500; // entries that are drawn of one

// {value} or {says, at}: where it stops being JSON.
export function parse(text) {
  try {
    return { value: JSON.parse(text) };
  } catch ({ message }) {
    const at = place(message, text);
    const before = text.slice(0, at).split("\n");
    const where = text.trim() ? ` (line ${before.length}, column ${before.at(-1).length + 1})` : "";
    return { says: `${reason(text, at)}${where}.`, at };
  }
}

function place(message, text) {
  const position = message.match(/position (\d+)/);
  if (position) return Number(position[1]);
  const line = message.match(/line (\d+) column (\d+)/);
  if (!line && isToken(message)) return placeOfToken(text);
  if (!line) return text.length; // "Unexpected end of JSON input"
  const lines = text.split("\n").slice(0, Number(line[1]) - 1);
  return lines.reduce((sum, each) => sum + each.length + 1, 0) + Number(line[2]) - 1;
}

const isToken = (message) => /token|identifier/i.test(message);

// Some browsers name a wrong token without its place: the shortest beginning with one ends there.
function placeOfToken(text) {
  let [good, bad] = [0, text.length];
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (isToken(problem(text.slice(0, middle)))) bad = middle;
    else good = middle;
  }
  return bad - 1;
}

function problem(text) {
  try {
    JSON.parse(text);
    return "";
  } catch ({ message }) {
    return message;
  }
}

function reason(text, at) {
  if (!text.trim()) return "There is nothing, and JSON must be something";
  if (at >= text.trimEnd().length) return "It ends in the middle";
  return `${JSON.stringify(text[at])} may not stand there`;
}

// The text around an error, with its place marked.
export function excerpt(text, at) {
  const mark = element("mark", "json-place", text.slice(at, at + 1) || "▮");
  mark.setAttribute("aria-label", "here");
  const before = `${at > AROUND ? "…" : ""}${text.slice(Math.max(0, at - AROUND), at)}`;
  const after = `${text.slice(at + 1, at + AROUND)}${text.length > at + AROUND ? "…" : ""}`;
  return element("pre", "json-excerpt", before, mark, after);
}

// `wrong` maps the path of a value ("/languages/0/year") to what is wrong with it.
export function tree(value, { wrong = new Map() } = {}) {
  const root = node("", value, "", wrong, 0);
  root.open = true;
  return element("div", "json-tree", root);
}

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
export const escaped = (key) => String(key).replaceAll("~", "~0").replaceAll("/", "~1");

function leaf(value) {
  return element("span", `json-value json-${value === null ? "null" : typeof value}`, JSON.stringify(value));
}

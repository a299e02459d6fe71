// @ts-check
// What stands under a text box of flags or variables: remarks, and the help of one flag.

import { flagRows, flagSource, variableSays } from "./about.js";
import { MOST } from "./text.js";
import { find } from "../../page/parts.js";

/** @import { FlagList } from "./list.js" */

const SHOWN = 6; // remarks
const SEVERITIES = { error: "Error:", warning: "Warning:", info: "Good to know:" };

// Remarks that stay keep their element, so that only new ones are read out.
export class Remarks {
  /** @param {HTMLElement} element @param {(mark: Flags.Mark) => void} use */
  constructor(element, use) {
    this.element = element;
    this.use = use;
    /** @type {Map<string, HTMLElement>} */
    this.kept = new Map();
    /** What an element says now: its sentence stays, its place may not. @type {WeakMap<HTMLElement, Flags.Mark>} */
    this.marks = new WeakMap();
    this.more = document.createElement("li");
    this.more.className = "quiet";
  }

  /** @param {Flags.Mark} mark */
  has(mark) {
    return this.kept.has(keyOf(mark));
  }

  /** @param {Flags.Mark[]} found */
  show(found) {
    /** @type {Map<string, HTMLElement>} */
    const shown = new Map();
    for (const each of found.slice(0, SHOWN)) {
      let key = keyOf(each);
      while (shown.has(key)) key += " again";
      shown.set(key, this.#item(this.kept.get(key), each));
    }
    for (const [key, item] of this.kept) if (!shown.has(key)) item.remove();
    [...shown.values()].forEach((item, at) => {
      if (this.element.children[at] !== item) this.element.insertBefore(item, this.element.children[at] ?? null);
    });
    this.kept = shown;
    const rest = found.length - shown.size;
    if (rest > 0) {
      const text = found.length < MOST ? `and ${rest} more` : `and ${rest} more, or even more than that`;
      if (this.more.textContent !== text) this.more.textContent = text;
      this.element.append(this.more);
    } else this.more.remove();
  }

  /** @param {HTMLElement | undefined} kept @param {Flags.Mark} mark */
  #item(kept, mark) {
    const item = kept ?? this.#made(mark);
    const line = find(item, ".line", HTMLElement);
    const text = `line ${mark.line}`;
    if (line.textContent !== text) line.textContent = text;
    this.marks.set(item, mark);
    return item;
  }

  /** @param {Flags.Mark} mark */
  #made(mark) {
    const { severity, word, says, instead } = mark;
    const item = document.createElement("li");
    item.className = severity === "info" ? "flag-mark" : "flag-mark is-certain";
    const sentence = document.createElement("span");
    sentence.append(made("strong", SEVERITIES[severity]), " ", ...withCode(says, [word, instead]), " ");
    sentence.append(made("span", "", "line quiet"));
    item.append(sentence);
    if (instead) {
      const button = made("button", `Use ${instead}`);
      button.type = "button";
      button.addEventListener("click", () => this.use(this.marks.get(item) ?? mark));
      item.append(" ", button);
    }
    return item;
  }
}

// A sentence in which these names stand in a code's letters.
/** @param {string} says @param {string[]} names */
function withCode(says, names) {
  const pieces = says.split(/([\s,“”]+|[.:?]+(?=\s|$))/);
  return pieces.map((piece) => (piece && names.includes(piece) ? named(piece) : piece));
}

// A name in which no line breaks, unless it is as long as one.
/** @param {string} name */
const named = (name) => made("code", name, name.length < 36 ? "nowrap" : "");

/** @param {Flags.Mark} mark */
const keyOf = ({ word, says }) => `${word} ${says}`;

// The help of the flag or variable at the caret; what is shown stays until there is another one.
/** @param {HTMLElement} element @param {FlagList} list @param {{name: string}} typed */
export function describeFlag(element, list, { name: typed }) {
  const flag = list.find(typed);
  if (!flag) return false;
  const rows = flagRows(list, flag).map(([term, said, rest = 0]) => row(term, said, rest));
  const facts = made("dl", "", "facts");
  facts.append(...rows.flat());
  const parts = [head([...flag.names, ...(flag.off ?? [])], list.matches(typed)[0] ?? typed, flag.deprecated), facts];
  const { help } = list.detail(flag);
  if (help) parts.push(made("p", help, "said"));
  parts.push(made("p", `From ${flagSource(list, flag)}`, "quiet"));
  fill(element, parts);
  return true;
}

/** @param {HTMLElement} element @param {FlagList} list @param {Flags.Typed} typed */
export function describeVariable(element, list, { name, values }) {
  const flag = list.flagOf(name);
  if (flag) {
    if (!describeFlag(element, list, { name: flag.names[0] ?? name })) return false;
    find(element, "p.flag-names", HTMLElement).prepend(made("code", name), " ", made("span", "says the same as", "quiet"), " ");
    return true;
  }
  // A name that is still being typed is not yet a library's.
  const says = values.length || list.isOwn(name) ? variableSays(list, name) : "";
  if (says) fill(element, [head([name], name), made("p", says)]);
  return Boolean(says);
}

/** @param {HTMLElement} element @param {HTMLElement[]} parts */
function fill(element, parts) {
  element.replaceChildren(...parts);
  element.hidden = false;
}

/** @param {string[]} names @param {string} first @param {boolean} [isDeprecated] */
function head(names, first, isDeprecated) {
  const line = made("p", "", "flag-names");
  const others = names.filter((each) => each !== first);
  line.append(made("code", first));
  for (const name of others) line.append(" ", made("code", name, "quiet"));
  if (isDeprecated) line.append(" ", made("strong", "deprecated", "attention"));
  return line;
}

/** @param {string} term @param {string | string[]} said @param {number} rest */
function row(term, said, rest) {
  const value = made("dd", typeof said === "string" ? said : "");
  if (typeof said !== "string") for (const each of said) value.append(made("code", each), " ");
  if (rest > 0) value.append(made("span", `and ${rest} more`, "quiet"));
  return [made("dt", term), value];
}

/** @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {string} text @param {string} [name] */
function made(tag, text, name = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (name) element.className = name;
  return element;
}

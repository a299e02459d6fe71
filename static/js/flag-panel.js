// What stands under a text box of flags or variables: remarks, and the help of one flag.

import { flagRows, flagSource, variableSays } from "./flag-about.js";
import { MOST } from "./flag-marks.js";

const SHOWN = 6; // remarks

// Remarks that stay keep their element, so that only new ones are read out.
export class Remarks {
  constructor(element, use) {
    this.element = element;
    this.use = use;
    this.kept = new Map();
    this.more = document.createElement("li");
    this.more.className = "quiet";
  }

  has(mark) {
    return this.kept.has(keyOf(mark));
  }

  show(found) {
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

  #item(kept, mark) {
    const item = kept ?? this.#made(mark);
    const line = item.querySelector(".line");
    const text = `line ${mark.line}`;
    if (line.textContent !== text) line.textContent = text;
    item.mark = mark;
    return item;
  }

  #made({ kind, about, says, fix, isCertain }) {
    const item = document.createElement("li");
    item.className = isCertain ? "flag-mark is-certain" : "flag-mark";
    const sentence = document.createElement("span");
    sentence.append(made("strong", kind), " ", named(about), " ", ...withCode(says, fix?.text), " ");
    sentence.append(made("span", "", "line quiet"));
    item.append(sentence);
    if (fix) {
      const button = made("button", `Use ${fix.text}`);
      button.type = "button";
      button.addEventListener("click", () => this.use(item.mark));
      item.append(" ", button);
    }
    return item;
  }
}

// A sentence whose proposed name stands in a code's letters.
function withCode(says, name) {
  const [before, after] = name ? says.split(name, 2) : [says];
  return after === undefined ? [before] : [before, named(name), after];
}

// A name in which no line breaks, unless it is as long as one.
const named = (name) => made("code", name, name.length < 36 ? "nowrap" : "");

const keyOf = ({ about, says }) => `${about} ${says}`;

// The help of the flag or variable at the caret; what is shown stays until there is another one.
export function describeFlag(element, list, { name: typed }) {
  const flag = list.find(typed);
  if (!flag) return false;
  const rows = flagRows(list, flag).map(([term, said, rest = 0]) => row(term, said, rest));
  const facts = made("dl", "", "facts");
  facts.append(...rows.flat());
  const parts = [head([...flag.names, ...(flag.off ?? [])], list.matches(typed)[0], flag.deprecated), facts];
  const { help } = list.detail(flag);
  if (help) parts.push(made("p", help, "said"));
  parts.push(made("p", `From ${flagSource(list, flag)}`, "quiet"));
  fill(element, parts);
  return true;
}

export function describeVariable(element, list, { name, values }) {
  const flag = list.flagOf(name);
  if (flag) {
    if (!describeFlag(element, list, { name: flag.names[0] })) return false;
    element.querySelector("p.flag-names").prepend(made("code", name), " ", made("span", "says the same as", "quiet"), " ");
    return true;
  }
  // A name that is still being typed is not yet a library's.
  const says = values.length || list.isOwn(name) ? variableSays(list, name) : "";
  if (says) fill(element, [head([name], name), made("p", says)]);
  return Boolean(says);
}

function fill(element, parts) {
  element.replaceChildren(...parts);
  element.hidden = false;
}

function head(names, first, isDeprecated) {
  const line = made("p", "", "flag-names");
  const others = names.filter((each) => each !== first);
  line.append(made("code", first));
  for (const name of others) line.append(" ", made("code", name, "quiet"));
  if (isDeprecated) line.append(" ", made("strong", "deprecated", "attention"));
  return line;
}

function row(term, said, rest) {
  const value = made("dd", typeof said === "string" ? said : "");
  if (typeof said !== "string") for (const each of said) value.append(made("code", each), " ");
  if (rest > 0) value.append(made("span", `and ${rest} more`, "quiet"));
  return [made("dt", term), value];
}

function made(tag, text, name = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (name) element.className = name;
  return element;
}

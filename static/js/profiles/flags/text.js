// @ts-check
// Reads the text boxes of flags and variables: which word stands where, and which one a mark means.

// Words as a shell cuts them, with their places: {start, end, text}; and the comments.
/** @param {string} text */
export function cut(text) {
  /** @type {Flags.Word[]} */
  const words = [];
  /** @type {Flags.Span[]} */
  const comments = [];
  let at = 0;
  while (at < text.length) {
    const blank = /^(?:\s|\\[ \t]*(?:\n|$))+/.exec(text.slice(at));
    if (blank) {
      at += blank[0].length;
    } else if (text[at] === "#") {
      const end = lineEnd(text, at);
      comments.push({ start: at, end });
      at = end;
    } else {
      const word = readWord(text, at);
      words.push(word);
      at = word.end;
    }
  }
  return { words, comments };
}

/** @param {string} text @param {number} start @returns {Flags.Word} */
function readWord(text, start) {
  let said = "";
  let at = start;
  while (at < text.length && !/\s/.test(text.charAt(at))) {
    const character = text.charAt(at);
    if (character === "\\") {
      if (/^\\[ \t]*(?:\n|$)/.test(text.slice(at))) break;
      said += text.charAt(at + 1);
      at += 2;
    } else if (character === "'" || character === '"') {
      const close = closing(text, at);
      said += text.slice(at + 1, close).replace(character === '"' ? /\\(["\\$`])/g : /(?!)/g, "$1");
      at = close + 1;
    } else {
      said += character;
      at += 1;
    }
  }
  return { start, end: Math.min(at, text.length), text: said };
}

// Where a quotation ends. One that is still open ends with its line, not with the text.
/** @param {string} text @param {number} open */
function closing(text, open) {
  for (let at = open + 1; at < text.length; at++) {
    if (text[at] === "\\" && text[open] === '"') at += 1;
    else if (text[at] === text[open]) return at;
  }
  return lineEnd(text, open);
}

/** @param {string} text @param {number} at */
function lineEnd(text, at) {
  const end = text.indexOf("\n", at);
  return end < 0 ? text.length : end;
}

const NUMBER = /^-((\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)$/i;

/** @param {string} word */
const isFlag = (word) => word.length > 1 && word.startsWith("-") && !NUMBER.test(word);

// Every flag: {start, end of its name, name, values: [{start, end, text}], last: where it ends}.
/** @param {string} text */
export function flags(text) {
  /** @type {Flags.Typed[]} */
  const found = [];
  for (const word of cut(text).words) {
    if (!isFlag(word.text)) {
      const flag = found.at(-1);
      flag?.values.push(word);
      if (flag) flag.last = word.end;
      continue;
    }
    const equals = word.text.indexOf("=");
    const raw = text.slice(word.start, word.end).indexOf("=");
    const end = equals < 0 ? word.end : word.start + raw;
    const name = equals < 0 ? word.text : word.text.slice(0, equals);
    const values = equals < 0 ? [] : [{ start: end + 1, end: word.end, text: word.text.slice(equals + 1) }];
    found.push({ start: word.start, end, name, values, last: word.end });
  }
  return found;
}

// Words before the first flag: {start, end, text}, or null.
/** @param {string} text @returns {Flags.Word | null} */
export function stray(text) {
  const { words } = cut(text);
  const first = words.findIndex((word) => isFlag(word.text));
  const found = first < 0 ? words : words.slice(0, first);
  const [head, tail] = [found.at(0), found.at(-1)];
  if (!head || !tail) return null;
  return { start: head.start, end: tail.end, text: found.map((word) => word.text).join(" ") };
}

// Every variable: as a flag with one value. What is no NAME=value line yet is a name.
/** @param {string} text */
export function variables(text) {
  /** @type {Flags.Typed[]} */
  const found = [];
  for (const line of text.matchAll(/^[ \t]*(?:export[ \t]+|-e[ \t]+|--env[ =])?([A-Za-z_]\w*)(=?)(.*)$/gm)) {
    const [all, name = "", equals = "", value = ""] = line;
    const start = line.index + all.length - value.length - equals.length - name.length;
    const end = start + name.length;
    const last = line.index + all.length;
    found.push({ start, end, name, values: equals ? [{ start: end + 1, end: last, text: value.trim() }] : [], last });
  }
  return found;
}

// The flag on which the caret stands: on its words, or behind them on the same line.
/** @param {Flags.Typed[]} found @param {string} text @param {number} caret */
export function here(found, text, caret) {
  const before = found.filter((each) => each.start <= caret).at(-1);
  return before && caret <= lineEnd(text, before.last) ? before : null;
}

// What is being typed at the caret: {part: "name" or "value", start, end, typed} of `flag`, or null.
/**
 * @param {Flags.Typed | null} flag
 * @param {string} text
 * @param {number} caret
 * @returns {Flags.Typing | null}
 */
export function typing(flag, text, caret) {
  if (!flag) return null;
  if (caret <= flag.end) {
    return { part: "name", start: flag.start, end: flag.end, typed: text.slice(flag.start, caret) };
  }
  for (const { start, end } of flag.values) {
    if (start <= caret && caret <= end) return { part: "value", start, end, typed: text.slice(start, caret) };
  }
  const between = text.slice(flag.end, caret);
  if (flag.values.length || !/^[ \t]+$/.test(between)) return null;
  return { part: "value", start: caret, end: caret, typed: "" };
}

// What the check says of single words (servers/judge/profiles/vocabulary.py), on the words of a box.
export const MOST = 50; // as many as the check tells of one box

// Only of words that still stand there as they were judged.
/** @param {Flags.Told[]} told @param {boolean} isFlags @param {string} text */
export function placed(told, isFlags, text) {
  const typed = isFlags ? flags(text) : variables(text);
  const found = told.map((each) => place(each, typed, text)).filter((each) => each !== null);
  return found.sort((one, other) => one.start - other.start);
}

/** @param {Flags.Told} told @param {Flags.Typed[]} typed @param {string} text @returns {Flags.Mark | null} */
function place(told, typed, text) {
  const { word, nth, values, value } = told;
  const flag = word ? typed.filter(({ name }) => name === word)[nth] : null;
  const at = flag ?? (word ? null : stray(text));
  if (!at || (values && !isAlike(values, flag?.values ?? []))) return null;
  const { start, end } = at;
  return { ...told, start, end, wrong: (values && flag?.values[value]) || { start, end }, line: text.slice(0, start).split("\n").length };
}

/** @param {string[]} judged @param {Flags.Word[]} values */
const isAlike = (judged, values) => judged.length === values.length && values.every(({ text }, at) => text === judged[at]);

// @ts-check
// What a box says that its engine would not understand, one sentence a word.
// With the list of exactly this version they are those of servers/judge/profiles/vocabulary.py.

import { closestValue } from "./edit-distance.js";
import { values } from "./list.js";
import { flags, stray, variables } from "./text.js";

/** @import { FlagList } from "./list.js" */

const BLANK = /\$\{?\w|<[^<>]+>/; // to be filled in: $TP, ${TP}, <your token>
/** @type {Record<string, RegExp>} */
const NUMBERS = { int: /^[+-]?\d+$/, float: /^[+-]?(\d+\.?\d*|\.\d+)(e-?\d+)?$/i };
const SHORT = 4; // how many names or values a sentence lists
export const MOST = 50; // marks: each is compared with every name

/** @param {FlagList} list @param {string} text */
export function flagMarks(list, text) {
  /** @type {Flags.Mark[]} */
  const found = [];
  const words = stray(text);
  if (words) found.push(mark(list, { ...words, name: words.text }, "Stray", "stands before the first flag, where the engine expects none."));
  for (const typed of flags(text)) {
    if (found.length >= MOST) break;
    const standing = list.standing(typed.name);
    if (standing !== "known") found.push(nameMark(list, typed, standing));
    else if (list.is_exact) found.push(...valueMarks(list, typed));
  }
  return lined(found, text);
}

/** @param {FlagList} list @param {string} text */
export function variableMarks(list, text) {
  const found = [];
  for (const typed of variables(text)) {
    if (found.length >= MOST) break;
    if (list.reads(typed.name) !== false) continue;
    const near = list.nearestVariable(typed.name);
    const says = list.is_exact ? `is not read by ${list.who}, so it does nothing.` : `is not in ${newest(list)}.`;
    found.push(mark(list, typed, "Unknown", says + asked(near), near));
  }
  return lined(found, text);
}

/** @param {FlagList} list @param {Flags.Typed} typed @param {Flags.Standing} standing */
function nameMark(list, typed, standing) {
  const { name } = typed;
  const matches = list.matches(name);
  const near = list.nearest(name);
  const who = list.is_exact ? list.who : newest(list);
  if (standing === "several") {
    const least = matches.reduce((one, other) => (other.length < one.length ? other : one));
    return mark(list, typed, "Ambiguous", `is short for ${shortened(matches)}: ${list.title} refuses it.`, least);
  }
  if (list.wasRemoved(name)) {
    const instead = near ? `Write ${near}.` : "Nothing took its place.";
    return mark(list, typed, "Removed", `is no longer in ${who}. ${instead}`, near);
  }
  if (standing === "elsewhere") {
    const says = `is in ${list.title} ${list.elsewhereIn(name)}, but not in ${newest(list)}.`;
    return mark(list, typed, "Elsewhere", says, null);
  }
  const says = list.is_exact ? `is not known to ${who}.` : `is not in ${who}.`;
  return mark(list, typed, "Unknown", says + (near ? asked(near) : " It is passed on as it stands."), near);
}

/** @param {FlagList} list @param {Flags.Typed} typed @returns {Flags.Mark[]} */
function valueMarks(list, typed) {
  const flag = list.find(typed.name);
  if (!flag) return [];
  const isPart = list.engine === "vllm" && typed.name.includes(".");
  const isJoined = list.engine === "vllm" && /^-O\d$/.test(typed.name); // -O3
  const said = typed.values.map((each) => each.text);
  if (isPart || isJoined || BLANK.test(said.join(" "))) return [];
  const count = said.length;
  if (flag.takes === "none") {
    return count ? [mark(list, typed, "Value", `takes no value; “${said.join(" ")}” behind it is refused.`)] : [];
  }
  if ((flag.takes ?? "one") === "one" && count !== 1) {
    return [mark(list, typed, "Value", count ? `takes one value, not ${count}.` : "needs a value.")];
  }
  return typed.values.map((each) => valueMark(list, flag, typed, each)).filter(Boolean);
}

/**
 * @param {FlagList} list
 * @param {Flags.Flag} flag
 * @param {Flags.Typed} typed
 * @param {Flags.Word} word
 * @returns {Flags.Mark | null}
 */
function valueMark(list, flag, typed, { start, end, text }) {
  const allowed = values(flag);
  if (allowed.length && !allowed.includes(text)) {
    const near = closestValue(text, allowed);
    const says = `does not know “${text}”.${near ? asked(near) : ` It knows ${shortened(allowed)}.`}`;
    return { ...mark(list, typed, "Value", says), fix: near ? { start, end, text: near } : null };
  }
  if (NUMBERS[flag.type ?? ""]?.test(text) === false) {
    return mark(list, typed, "Value", `takes a ${flag.type === "int" ? "whole number" : "number"}, not “${text}”.`);
  }
  if (text.startsWith("{") && flag.type?.includes("json") && !isJson(text)) {
    return mark(list, typed, "Value", "says no valid JSON: check quotes and braces.");
  }
  return null;
}

/** @param {FlagList} list */
const newest = (list) => `the newest list, ${list.who}`;

/** @param {string | null} near */
const asked = (near) => (near ? ` Did you mean ${near}?` : "");

/**
 * @param {FlagList} list
 * @param {{name: string} & Flags.Span} typed
 * @param {string} kind
 * @param {string} says
 * @param {string | null} [near]
 * @returns {Flags.Mark}
 */
function mark(list, typed, kind, says, near = null) {
  const { start, end } = typed;
  return {
    start,
    end,
    about: typed.name,
    kind,
    says,
    isCertain: list.is_exact,
    fix: near ? { start, end, text: near } : null,
  };
}

/** @param {string[]} words */
function shortened(words) {
  return words.slice(0, SHORT).join(", ") + (words.length > SHORT ? " …" : "");
}

/** @param {string} text */
function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** @param {Flags.Mark[]} found @param {string} text @returns {Flags.LinedMark[]} */
function lined(found, text) {
  return found.map((each) => ({ ...each, line: text.slice(0, each.start).split("\n").length }));
}

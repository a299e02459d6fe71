// @ts-check
// What the word at the caret may become: {start, end, part, items: [{text, hint}], active}.
// `active` is the item that Enter takes: -1 where what stands there is already right, or where
// nothing is certain to be meant.

import { hint } from "./about.js";
import { values } from "./list.js";
import { flags, here, typing, variables } from "./text.js";

/** @import { FlagList } from "./list.js" */

const MOST = 60; // items; more are reached by typing on
const FEW = 2; // characters that say too little: "--"

/**
 * @param {FlagList} list
 * @param {boolean} isFlags
 * @param {string} text
 * @param {number} caret
 * @param {boolean} isAsked
 */
export function suggest(list, isFlags, text, caret, isAsked) {
  const flag = here(isFlags ? flags(text) : variables(text), text, caret);
  const at = typing(flag, text, caret);
  if (!at || !flag) return isAsked ? atBlank(list, isFlags, text, caret) : null;
  return at.part === "name" ? names(list, isFlags, at, isAsked) : valuesOf(list, isFlags, flag, at);
}

/** @param {FlagList} list @param {boolean} isFlags @param {string} text @param {number} caret */
function atBlank(list, isFlags, text, caret) {
  const isBlank = /(^|\s)$/.test(text.slice(0, caret)) && /^(\s|$)/.test(text.slice(caret));
  if (!isBlank) return null;
  return names(list, isFlags, { start: caret, end: caret, typed: "" }, true);
}

/**
 * @param {FlagList} list
 * @param {boolean} isFlags
 * @param {Flags.Span & {typed: string}} at
 * @param {boolean} isAsked
 * @returns {Flags.Suggestion | null}
 */
function names(list, isFlags, { start, end, typed }, isAsked) {
  if (typed.length < FEW && !isAsked) return null;
  const found = isFlags ? list.completions(typed) : list.variableCompletions(typed);
  const isThere = isFlags ? list.byName.has(list.spelled(typed)) : found.includes(typed);
  const [best] = found;
  if (best === undefined || (isThere && found.length === 1)) return null;
  const items = found.slice(0, MOST).map((name) => ({ text: name, hint: hintOf(list, isFlags, name) }));
  const isMeant = typed.length > FEW && !isThere && begins(best, typed);
  return { part: "name", start, end, items, active: isMeant ? 0 : -1, more: found.length - items.length };
}

/** @param {FlagList} list @param {boolean} isFlags @param {string} name */
function hintOf(list, isFlags, name) {
  if (isFlags) return hint(list, list.find(name));
  const flag = list.flagOf(name);
  if (flag) return hint(list, flag);
  return list.env ? "" : `${list.title} ${list.lent_env?.version}`;
}

/**
 * @param {FlagList} list
 * @param {boolean} isFlags
 * @param {Flags.Typed} flag
 * @param {Flags.Typing} at
 * @returns {Flags.Suggestion | null}
 */
function valuesOf(list, isFlags, flag, { start, end, typed }) {
  const found = isFlags ? list.find(flag.name) : list.flagOf(flag.name);
  if (!found || flag.name.includes(".")) return null;
  const detail = list.detail(found);
  const all = values(detail);
  const wanted = typed.toLowerCase();
  const first = all.filter((each) => each.toLowerCase().startsWith(wanted));
  const then = wanted ? all.filter((each) => each.toLowerCase().indexOf(wanted) > 0) : [];
  const fitting = [...first, ...then];
  const isThere = all.includes(typed);
  if (!fitting.length || (isThere && fitting.length === 1)) return null;
  const isMeant = typed && !isThere && first.length > 0 && detail === found && Boolean(found.choices);
  const items = fitting.slice(0, MOST).map((text) => ({ text, hint: text === detail.default ? "default" : "" }));
  return { part: "value", start, end, items, active: isMeant ? 0 : -1, more: fitting.length - items.length };
}

// A flag's underscores are dashes to most engines; a variable's name is typed in any case.
/** @param {string} name @param {string} typed */
const begins = (name, typed) =>
  name.toLowerCase().startsWith(typed.toLowerCase().replaceAll("_", "-")) || name.startsWith(typed.toUpperCase());

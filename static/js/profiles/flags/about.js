// @ts-check
// What is known of a flag or variable, in words: the type, the values, the default, its help.

import { values } from "./list.js";

/** @import { FlagList } from "./list.js" */

/** A term, what is said of it, and how many more there are. @typedef {[term: string, said: string | string[], rest?: number]} Row */

/** @type {Record<string, string>} */
const TYPES = {
  int: "whole number",
  float: "number",
  size: "size such as 8k or 1M",
  json: "JSON object",
  str: "text",
  auto: "auto",
};
const MOST = 24; // values that are listed

// One or two words for a list of completions.
/** @param {FlagList} list @param {Flags.Flag | null} flag */
export function hint(list, flag) {
  if (!flag) return "";
  if (flag.takes === "none") return "switch";
  if (list.isWritten(flag)) return "written by inferdash";
  const detail = list.detail(flag);
  const known = values(detail);
  if (known.length > 3) return `${known.length} values`;
  if (known.length) return known.join(" · ");
  const { default: usual = "" } = detail;
  return [typeWords(detail), usual && usual.length < 12 ? `default ${usual}` : ""].filter(Boolean).join(", ");
}

// Rows for a flag: [term, text or list of values].
/** @param {FlagList} list @param {Flags.Flag} flag @returns {Row[]} */
export function flagRows(list, flag) {
  const detail = list.detail(flag);
  const known = values(detail);
  /** @type {Row[]} */
  const rows = [["Takes", takes(flag, detail, known)]];
  if (known.length) rows.push(["Values", known.slice(0, MOST), known.length - MOST]);
  if (detail.default) rows.push(["Default", [detail.default]]);
  if (flag.env) rows.push(["Variable", [flag.env]]);
  if (list.isWritten(flag)) rows.push(["Written", "by inferdash from the form’s other fields, unless it stands here"]);
  return rows;
}

// Where the rows are from.
/** @param {FlagList} list @param {Flags.Flag} flag */
export function flagSource(list, flag) {
  const lent = list.lent[flag.names[0] ?? ""];
  if (lent) return `${list.title} ${lent.version}. Of ${list.which} only the name is known.`;
  if (list.asked === "answered") return `this image’s own --help: ${list.who}.`;
  if (list.is_exact) return `${list.who}.`;
  return `${list.who}, the newest list: this image ${notAsked(list)}.`;
}

/** @param {FlagList} list */
const notAsked = (list) => (list.asked === "failed" ? "could not be asked" : "has not been asked yet");

/** @param {FlagList} list @param {string} name */
export function variableSays(list, name) {
  if (list.reads(name)) return `Read by ${list.who}.`;
  const lent = list.lent_env;
  if (lent?.names.includes(name)) return `Read by ${list.title} ${lent.version}; which variables ${list.which} reads is not known.`;
  if (!list.isOwn(name)) return `None of ${list.title}’s own variables. Libraries such as CUDA, NCCL or PyTorch read others.`;
  return "";
}

// What help and remarks under a box go by.
/** @param {FlagList} list @param {boolean} isFlags @param {string | null} image */
export function sourceOf(list, isFlags, image) {
  if (!isFlags && !list.env) {
    const lent = list.lent_env ? ` Completion goes by ${list.lent_env.version}.` : "";
    return `Which variables ${list.who} reads is not known.${lent}`;
  }
  const count = isFlags ? `${list.flags.length} flags` : `${list.env?.length} variables`;
  const listed = isFlags && list.asked === "answered" ? ", as this image lists them" : "";
  if (list.is_exact) return `Help knows the ${count} of ${list.who}${listed}.`;
  const why = image ? `This image ${notAsked(list)}` : "There is no image yet";
  return `${why}, so help goes by the newest list: ${count} of ${list.who}.`;
}

/** @param {Flags.Flag} flag @param {Flags.Flag} detail @param {string[]} known */
function takes(flag, detail, known) {
  if (flag.takes === "none") return flag.off?.length ? `no value; ${flag.off[0]} switches it off` : "no value: it is a switch";
  const what = detail.choices ? "of the values" : known.length ? "of these values or another" : typeWords(detail) || "value";
  if (flag.takes === "optional") return `one ${what}, or nothing`;
  if (flag.takes === "many") return `one ${what}, or several with blanks between`;
  return known.length || what === "value" ? `one ${what}` : what;
}

/** @param {Flags.Flag} flag */
function typeWords({ type = "" }) {
  const said = type.replace("?", "").split("|").map((each) => TYPES[each] ?? each).filter(Boolean);
  return said.join(" or ");
}

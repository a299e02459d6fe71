// What is known of a flag or variable, in words: the type, the values, the default, its help.

import { values } from "./flag-list.js";

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
export function hint(list, flag) {
  if (flag.takes === "none") return "switch";
  const detail = list.detail(flag);
  const known = values(detail);
  if (known.length > 3) return `${known.length} values`;
  return known.length ? known.join(" · ") : typeWords(detail);
}

// Rows for a flag: [term, text or list of values].
export function flagRows(list, flag) {
  const detail = list.detail(flag);
  const known = values(detail);
  const rows = [["Takes", takes(flag, detail, known)]];
  if (known.length) rows.push(["Values", known.slice(0, MOST), known.length - MOST]);
  if (detail.default) rows.push(["Default", [detail.default]]);
  if (flag.env) rows.push(["Variable", [flag.env]]);
  return rows;
}

// Where the rows are from.
export function flagSource(list, flag) {
  const lent = list.lent[flag.names[0]];
  if (lent) return `${list.title} ${lent.version}. Of ${list.version} only the name is known.`;
  if (list.is_exact) return `${list.who}.`;
  return `${list.who}, the newest list: this image has not been asked yet.`;
}

export function variableSays(list, name) {
  if (list.reads(name)) return `Read by ${list.who}.`;
  const lent = list.lent_env;
  if (lent?.names.includes(name)) return `Read by ${list.title} ${lent.version}; which variables ${list.version} reads is not known.`;
  if (!list.isOwn(name)) return `None of ${list.title}’s own variables. Libraries such as CUDA, NCCL or PyTorch read others.`;
  return "";
}

// What help and remarks under a box go by.
export function sourceOf(list, isFlags, image) {
  const keys = "Ctrl+Space lists them.";
  if (!isFlags && !list.env) {
    const lent = list.lent_env ? ` Completion goes by ${list.lent_env.version}.` : "";
    return `Which variables ${list.who} reads is not known.${lent}`;
  }
  const count = isFlags ? `${list.flags.length} flags` : `${list.env.length} variables`;
  if (list.is_exact) return `Help knows the ${count} of ${list.who}. ${keys}`;
  const why = image ? "This image has not been asked yet" : "There is no image yet";
  return `${why}, so help goes by the newest list: ${count} of ${list.who}. ${keys}`;
}

function takes(flag, detail, known) {
  if (flag.takes === "none") return flag.off?.length ? `no value; ${flag.off[0]} switches it off` : "no value: it is a switch";
  const what = detail.choices ? "of the values" : known.length ? "of these values or another" : typeWords(detail);
  if (flag.takes === "optional") return `one ${what}, or nothing`;
  if (flag.takes === "many") return `one ${what}, or several with blanks between`;
  return known.length ? `one ${what}` : what;
}

function typeWords({ type = "" }) {
  const said = type.replace("?", "").split("|").map((each) => TYPES[each] ?? each).filter(Boolean);
  return said.join(" or ") || "text";
}

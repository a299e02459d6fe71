// The flags and variables of one image: finding, matching, and what a misspelled word means.
// The rules are those of servers/engines/flaglist.py; a test holds both against each other.

import { closest, closestValue } from "./flag-likeness.js";

const AGAIN_AFTER = 30_000; // ms: by then the image may have been asked
const LIKENESS = 0.7; // a word that shares less with a flag is no misspelling of it

export class FlagList {
  constructor(said) {
    Object.assign(this, said);
    this.byName = new Map();
    this.byVariable = new Map();
    for (const flag of this.flags) {
      for (const name of [...flag.names, ...(flag.off ?? [])]) this.byName.set(name, flag);
      if (flag.env) this.byVariable.set(flag.env, flag);
    }
    this.names = [...this.byName.keys()];
    this.read = this.env && new Set(this.env);
    this.near = new Map(); // what was asked before: comparing with every name takes a while
  }

  get who() {
    return `${this.title} ${this.version}`.trim();
  }

  get which() {
    return this.version || "this image";
  }

  spelled(typed) {
    if (this.engine === "sglang") return typed;
    if (this.engine === "vllm") {
      if (/^-O(\d|$)/.test(typed)) return "--optimization-level";
      if (typed.startsWith("-O.")) return "--compilation-config";
      typed = typed.split(".", 1)[0];
    }
    return dashed(typed);
  }

  // The spelled-out names that a typed flag may mean: none, one, or several (refused).
  matches(typed) {
    const name = this.spelled(typed);
    if (this.byName.has(name)) return [name];
    if (this.engine === "llamacpp" || !name.startsWith("--") || name.length < 3) return [];
    const found = this.names.filter((each) => each.startsWith(name)).sort();
    const meant = new Set(found.map((each) => `${this.byName.get(each).names[0]} ${this.isOff(each)}`));
    return meant.size === 1 ? found.slice(0, 1) : found;
  }

  find(typed) {
    const found = this.matches(typed);
    return found.length === 1 ? this.byName.get(found[0]) : null;
  }

  isOff(name) {
    return this.byName.get(name).off?.includes(name) ?? false;
  }

  // A version that knows this name, where it is not certain which one the image has.
  elsewhereIn(typed) {
    return this.elsewhere?.[this.spelled(typed)] ?? this.elsewhere?.[dashed(typed)] ?? "";
  }

  // "known", "unknown", "several" or "elsewhere".
  standing(typed) {
    const found = this.matches(typed);
    if (found.length === 1) return "known";
    if (this.elsewhereIn(typed)) return "elsewhere";
    return found.length ? "several" : "unknown";
  }

  nearest(typed) {
    if (!this.near.has(typed)) this.near.set(typed, this.#nearest(typed));
    return this.near.get(typed);
  }

  #nearest(typed) {
    const name = this.spelled(typed);
    const other = name.replaceAll("_", "-");
    for (const each of [name, other]) {
      if (Object.hasOwn(this.removed, each)) return this.removed[each];
    }
    return this.byName.has(other) ? other : closest(other, this.names, LIKENESS);
  }

  wasRemoved(typed) {
    return Object.hasOwn(this.removed, dashed(typed));
  }

  // Whether inferdash writes it from the form's other fields.
  isWritten(flag) {
    return flag.names.some((name) => this.written.includes(name));
  }

  // What is known of a flag beyond its names: its own, else what another version says.
  detail(flag) {
    return this.lent[flag.names[0]] ?? flag;
  }

  // Whether this version reads a variable; null where nobody can tell.
  reads(variable) {
    if (!this.read || !this.isOwn(variable)) return null;
    return this.read.has(variable) || this.read.has(meant(variable));
  }

  isOwn(variable) {
    return this.env_prefixes.some((prefix) => variable.startsWith(prefix));
  }

  nearestVariable(variable) {
    if (!this.near.has(variable)) this.near.set(variable, closestValue(meant(variable), this.env, 0.9));
    return this.near.get(variable);
  }

  // The flag that says the same as a variable.
  flagOf(variable) {
    return this.byVariable.get(variable) ?? this.byVariable.get(meant(variable)) ?? null;
  }

  // Names that the typed beginning may become: those that begin so, then those that contain it.
  completions(typed) {
    const wanted = dashed(typed.toLowerCase());
    const bare = wanted.replace(/^-+/, "");
    const first = [];
    const then = [];
    for (const flag of this.flags) {
      const all = [...flag.names, ...(bare ? (flag.off ?? []) : [])];
      const name = all.find((each) => each.toLowerCase().startsWith(wanted));
      if (name) first.push(name);
      else if (bare.length > 1) then.push(...all.filter((each) => each.toLowerCase().includes(bare)).slice(0, 1));
    }
    const found = [...first.sort(byLengthOf(bare)), ...then.sort()];
    if (found.length || bare.length < 3 || this.find(typed)) return found;
    const near = this.nearest(typed);
    return near ? [near] : [];
  }

  variableCompletions(typed) {
    const names = this.env ?? this.lent_env?.names ?? [];
    const wanted = typed.toUpperCase();
    const first = names.filter((name) => name.startsWith(wanted));
    const then = wanted.length > 2 ? names.filter((name) => name.indexOf(wanted) > 0) : [];
    return [...first, ...then];
  }
}

const dashed = (name) => (name.startsWith("--") ? name.replaceAll("_", "-") : name);

// SGLang reads SGL_X as SGLANG_X; llama.cpp's LLAMA_ARG_NO_X switches X off.
const meant = (variable) => variable.replace(/^SGL_/, "SGLANG_").replaceAll("LLAMA_ARG_NO_", "LLAMA_ARG_");

// A whole name comes before the longer ones that begin with it.
const byLengthOf = (bare) => (one, other) =>
  (other.replace(/^-+/, "") === bare) - (one.replace(/^-+/, "") === bare) || (one < other ? -1 : 1);

export const values = (flag) => flag?.choices ?? flag?.known ?? [];

const lists = new Map(); // address -> {list: a promise, at}

// The list of this engine and image. A copy is kept while the page is open, but not beyond news.
export function fetchList(address, isNews = false) {
  const kept = lists.get(address);
  if (kept && !isNews && (kept.isExact || Date.now() - kept.at < AGAIN_AFTER)) return kept.list;
  const list = ask(address);
  const entry = { list, at: Date.now(), isExact: false };
  lists.set(address, entry);
  list.then(
    (found) => (entry.isExact = found.is_exact),
    () => lists.delete(address),
  );
  return list;
}

async function ask(address) {
  const response = await fetch(address, { headers: { Accept: "application/json" } });
  const isList = response.headers.get("Content-Type")?.startsWith("application/json");
  if (!response.ok || !isList) throw new Error(`inferdash answered with ${response.status}`);
  return new FlagList(await response.json());
}

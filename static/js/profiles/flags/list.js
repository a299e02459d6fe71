// @ts-check
// The flags and variables of one image: finding what is typed, and what it may become.
// Names are read as servers/launch/engines/flaglist.py does; a test holds both against each other.

const AGAIN_AFTER = 30_000; // ms: by then the image may have been asked
const LIKENESS = 0.6; // share of letter pairs that a misspelled name has in common with the right one

/** @implements {Flags.List} */
export class FlagList {
  /** @param {Flags.List} said */
  constructor(said) {
    this.engine = said.engine;
    this.version = said.version;
    this.title = said.title;
    this.flags = said.flags;
    this.env = said.env;
    this.env_prefixes = said.env_prefixes;
    this.removed = said.removed;
    this.is_exact = said.is_exact;
    this.asked = said.asked;
    this.written = said.written;
    this.lent = said.lent;
    this.lent_env = said.lent_env;
    /** @type {Map<string, Flags.Flag>} */
    this.byName = new Map();
    /** @type {Map<string, Flags.Flag>} */
    this.byVariable = new Map();
    for (const flag of this.flags) {
      for (const name of [...flag.names, ...(flag.off ?? [])]) this.byName.set(name, flag);
      if (flag.env) this.byVariable.set(flag.env, flag);
    }
    this.names = [...this.byName.keys()];
    this.read = this.env && new Set(this.env);
  }

  get who() {
    return `${this.title} ${this.version}`.trim();
  }

  get which() {
    return this.version || "this image";
  }

  /** @param {string} typed */
  spelled(typed) {
    if (this.engine === "sglang") return typed;
    if (this.engine === "vllm") {
      if (/^-O(\d|$)/.test(typed)) return "--optimization-level";
      if (typed.startsWith("-O.")) return "--compilation-config";
      typed = typed.split(".", 1)[0] ?? "";
    }
    return dashed(typed);
  }

  // The spelled-out names that a typed flag may mean: none, one, or several (refused).
  /** @param {string} typed @returns {string[]} */
  matches(typed) {
    const name = this.spelled(typed);
    if (this.byName.has(name)) return [name];
    if (this.engine === "llamacpp" || !name.startsWith("--") || name.length < 3) return [];
    const found = this.names.filter((each) => each.startsWith(name)).sort();
    const meant = new Set(found.map((each) => `${this.byName.get(each)?.names[0]} ${this.isOff(each)}`));
    return meant.size === 1 ? found.slice(0, 1) : found;
  }

  /** @param {string} typed */
  find(typed) {
    const found = this.matches(typed);
    return found.length === 1 ? (this.byName.get(found[0] ?? "") ?? null) : null;
  }

  /** @param {string} name */
  isOff(name) {
    return this.byName.get(name)?.off?.includes(name) ?? false;
  }

  // Whether inferdash writes it from the form's other fields.
  /** @param {Flags.Flag} flag */
  isWritten(flag) {
    return flag.names.some((name) => this.written.includes(name));
  }

  // What is known of a flag beyond its names: its own, else what another version says.
  /** @param {Flags.Flag} flag @returns {Flags.Flag} */
  detail(flag) {
    return this.lent[flag.names[0] ?? ""] ?? flag;
  }

  // Whether this version reads a variable; null where nobody can tell.
  /** @param {string} variable */
  reads(variable) {
    if (!this.read || !this.isOwn(variable)) return null;
    return this.read.has(variable) || this.read.has(meant(variable));
  }

  /** @param {string} variable */
  isOwn(variable) {
    return this.env_prefixes.some((prefix) => variable.startsWith(prefix));
  }

  // The flag that says the same as a variable.
  /** @param {string} variable */
  flagOf(variable) {
    return this.byVariable.get(variable) ?? this.byVariable.get(meant(variable)) ?? null;
  }

  // Names that the typed beginning may become: those that begin so, then those that contain it.
  /** @param {string} typed */
  completions(typed) {
    const wanted = dashed(typed.toLowerCase());
    const bare = wanted.replace(/^-+/, "");
    /** @type {string[]} */
    const first = [];
    /** @type {string[]} */
    const then = [];
    for (const flag of this.flags) {
      const all = [...flag.names, ...(bare ? (flag.off ?? []) : [])];
      const name = all.find((each) => each.toLowerCase().startsWith(wanted));
      if (name) first.push(name);
      else if (bare.length > 1) then.push(...all.filter((each) => each.toLowerCase().includes(bare)).slice(0, 1));
    }
    const found = [...first.sort(byLengthOf(bare)), ...then.sort()];
    if (found.length || bare.length < 3 || this.find(typed)) return found;
    const near = this.removed[wanted] ?? this.#mostAlike(wanted);
    return near ? [near] : [];
  }

  /** @param {string} typed */
  #mostAlike(typed) {
    const alike = this.names.map((name) => ({ name, share: likeness(name, typed) }));
    return alike.filter(({ share }) => share >= LIKENESS).sort((one, other) => other.share - one.share)[0]?.name;
  }

  /** @param {string} typed */
  variableCompletions(typed) {
    const names = this.env ?? this.lent_env?.names ?? [];
    const wanted = typed.toUpperCase();
    const first = names.filter((name) => name.startsWith(wanted));
    const then = wanted.length > 2 ? names.filter((name) => name.indexOf(wanted) > 0) : [];
    return [...first, ...then];
  }
}

/** @param {string} one @param {string} other */
function likeness(one, other) {
  const [mine, theirs] = [pairs(one), pairs(other)];
  return (2 * mine.filter((pair) => theirs.includes(pair)).length) / (mine.length + theirs.length);
}

/** @param {string} word */
const pairs = (word) => [...word].slice(1).map((letter, at) => word[at] + letter);

/** @param {string} name */
const dashed = (name) => (name.startsWith("--") ? name.replaceAll("_", "-") : name);

// SGLang reads SGL_X as SGLANG_X; llama.cpp's LLAMA_ARG_NO_X switches X off.
/** @param {string} variable */
const meant = (variable) => variable.replace(/^SGL_/, "SGLANG_").replaceAll("LLAMA_ARG_NO_", "LLAMA_ARG_");

// A whole name comes before the longer ones that begin with it.
/** @param {string} bare @returns {(one: string, other: string) => number} */
const byLengthOf = (bare) => (one, other) =>
  Number(other.replace(/^-+/, "") === bare) - Number(one.replace(/^-+/, "") === bare) || (one < other ? -1 : 1);

/** @param {Flags.Flag | null | undefined} flag */
export const values = (flag) => flag?.choices ?? flag?.known ?? [];

/** By address. @type {Map<string, {list: Promise<FlagList>, at: number, isExact: boolean}>} */
const lists = new Map();

// The list of this engine and image. A copy is kept while the page is open, but not beyond news.
/** @param {string} address @param {boolean} [isNews] */
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

/** @param {string} address */
async function ask(address) {
  const response = await fetch(address, { headers: { Accept: "application/json" } });
  const isList = response.headers.get("Content-Type")?.startsWith("application/json");
  if (!response.ok || !isList) throw new Error(`inferdash answered with ${response.status}`);
  return new FlagList(await response.json());
}

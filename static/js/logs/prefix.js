// @ts-check
// What an engine puts before its words, as servers/judge/logs/parsing.py reads it: level and time,
// which have columns of their own, and which process or file it is from.

const LEVELS = "DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL";
/** @type {Record<string, string>} */
const WORDS = { D: "DEBUG", I: "INFO", W: "WARN", E: "ERROR", T: "DEBUG", WARNING: "WARN", CRITICAL: "ERROR", FATAL: "ERROR" };
const LONGEST = 400; // characters that are looked at
const MOST = 8; // prefixes of a line

// Groups in their order: own and aside are what their names say, level is within an own one.
const PREFIXES = [
  String.raw`(?<aside>\[Stage-\d{1,4}\] ?)`,
  String.raw`(?<own>\[(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?)(?<own2>\] ?)`,
  String.raw`(?<own>\[(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})? )(?<aside>(?:(?:DP|PP|ATTN_CP|MOE_DP|ATTN_DP|TP|EP)\d{1,4} ?){1,6})(?<own2>\])`,
  String.raw`(?<aside>\((?:[A-Za-z][\w:.-]{0,60})?(?:(?: ?[\w=]{1,40}){0,3}?) ?pid=\d{1,9}(?:, ip=[0-9A-Fa-f.:]{2,45})?\)(?: \[repeated [^\]]{0,200}\])? ?)`,
  String.raw`(?<own>(?<level>${LEVELS}) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? )(?<aside>(?:\[?[\w./-]{1,200}:\d{1,6}\] ?)?)`,
  String.raw`(?<own>(?<level>${LEVELS}): {1,8})`,
  String.raw`(?<own>\d{1,6}\.\d\d\.\d{3}\.\d{3} (?<level>[IWEDT]) )`,
  String.raw`(?<own>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d{3} - (?<level>${LEVELS}) - )(?<aside>(?:[\w./-]{1,200}:\d{1,6} - )?)`,
  String.raw`(?<own>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})? ?\| ?(?<level>${LEVELS}) {0,10}\| )`,
  String.raw`(?<own>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})? (?!- ))`,
  String.raw`(?<aside>\[rank\d{1,4}\]: ?)`,
].map((each) => new RegExp(each, "y"));

/** @param {string} text without colours @returns {Log.Prefix} */
export function prefix(text) {
  const looked = text.slice(0, LONGEST);
  /** @type {Log.Prefix} */
  const said = { level: "", parts: [] };
  let at = 0;
  for (let count = 0; count < MOST; count++) {
    const found = match(looked, at);
    if (!found?.groups) break;
    const { level } = found.groups;
    if (level) said.level = WORDS[level] ?? level;
    for (const [name, words] of Object.entries(found.groups)) {
      if (name === "level" || !words) continue;
      said.parts.push([at, at + words.length, name === "aside" ? "aside" : "own"]);
      at += words.length;
    }
  }
  // Nothing but a prefix is what the line says.
  return text.slice(at).trim() ? said : { ...said, parts: [] };
}

/** @param {string} text @param {number} at */
function match(text, at) {
  for (const pattern of PREFIXES) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found?.[0]) return found;
  }
  return null;
}

// @ts-check
// Where things of a history go: its range of time, the layers of a stack, marks beside each other.

const KIB_PER_GIB = 2 ** 20;
const TONES = 6;

const ORDER = [
  "server", "process", "others", "programs", "shared", "kernel", "hugepages", "reserved", "usual",
  "driver_pool", "unseen", "unattributed", "unknown", "cache", "free",
];
/** @type {Record<string, string>} */
const NAMES = {
  others: "other processes", programs: "other programs", shared: "shared memory", hugepages: "huge pages",
  reserved: "reserved by the driver", usual: "always in use", driver_pool: "driver’s page pool",
  unseen: "holder not visible", unknown: "not known", cache: "page cache",
};

/** Server or process → its shade, for as long as the page is open. @type {Map<string, number>} */
const tones = new Map();

/** @param {string} key @returns {number} */
export function tone(key) {
  const found = tones.get(key) ?? (tones.size % TONES) + 1;
  tones.set(key, found);
  return found;
}

// The parts of the points, the lowest first.
/** @param {Past.Columns} columns @returns {Past.Layer[]} */
export function layers(columns) {
  const found = Object.entries(columns)
    .filter(([column]) => column.startsWith("="))
    .map(([column, kibs]) => {
      const [kind = "", ...rest] = column.slice(1).split(":");
      const isNamed = kind === "server" || kind === "process";
      const values = kibs.map((kib) => (kib === null ? null : kib / KIB_PER_GIB));
      const most = values.reduce((/** @type {number} */ greatest, value) => Math.max(greatest, value ?? 0), 0);
      return { key: column, kind, name: rest.join(":") || NAMES[kind] || kind, isNamed, values, most, tone: 0 };
    })
    .filter((layer) => layer.most >= 0.005 || layer.kind === "free");
  /** @param {Past.Layer} layer */
  const rank = (layer) => (ORDER.indexOf(layer.kind) + 1 || ORDER.length) * 1e6 - layer.most;
  found.sort((one, other) => rank(one) - rank(other) || (one.key < other.key ? -1 : 1));
  for (const layer of found) if (layer.isNamed) layer.tone = tone(layer.key);
  return found;
}

// For each layer, what it and all below it hold together.
/** @param {Past.Layer[]} stack @returns {Past.Values[]} */
export function heights(stack) {
  /** @type {Past.Values[]} */
  const found = [];
  for (const { values } of stack) {
    const below = found.at(-1);
    found.push(values.map((value, index) => (value === null ? null : value + (below?.[index] ?? 0))));
  }
  return found;
}

/**
 * Marks that would cover each other, as one: the indices of `places` (px, from left to right) in groups
 * that reach over less than `room` each.
 * @param {number[]} places @param {number} room
 * @returns {number[][]}
 */
export function cluster(places, room) {
  /** @type {number[][]} */
  const groups = [];
  let begins = -Infinity;
  for (const [index, place] of places.entries()) {
    if (place - begins < room) groups.at(-1)?.push(index);
    else {
      groups.push([index]);
      begins = place;
    }
  }
  return groups;
}

/** @param {number} seconds @param {Intl.DateTimeFormatOptions} options */
const local = (seconds, options) => new Date(seconds * 1000).toLocaleString("en-GB", { hourCycle: "h23", ...options });
/** "26 Nov"; with the year where that is another one. @param {number} seconds */
export function day(seconds) {
  const isThisYear = new Date(seconds * 1000).getFullYear() === new Date().getFullYear();
  return local(seconds, { day: "numeric", month: "short", ...(isThisYear ? {} : { year: "numeric" }) });
}
/** "18:04:09", as exactly as is asked. @param {number} seconds @param {boolean} [isExact] */
export const clock = (seconds, isExact = true) =>
  local(seconds, { hour: "2-digit", minute: "2-digit", ...(isExact ? { second: "2-digit" } : {}) });
/** "26 Nov 18:04:09". @param {number} seconds @param {boolean} [isExact] */
export const stamp = (seconds, isExact = true) => `${day(seconds)} ${clock(seconds, isExact)}`;

// The range of time that a history opens with.
const HOUR = 3600;
const DAY = 86400;
/** @type {Record<string, number>} */
const UNITS = { s: 1, m: 60, h: HOUR, d: DAY };

/** Seconds of a span as addresses write it, "3600", "1h" or "7d"; NaN where it is none.
 * @param {string} text */
export function seconds(text) {
  const found = /^(\d+(?:\.\d+)?)([smhd]?)$/.exec(text.trim());
  return found ? Number(found[1]) * (UNITS[found[2] || "s"] ?? NaN) : NaN;
}

/** A span as addresses write it: "1h", "7d", "90m". @param {number} span seconds */
export function written(span) {
  const whole = Math.round(span);
  const [unit, size] = Object.entries(UNITS).findLast(([, size]) => whole % size === 0) ?? ["s", 1];
  return `${whole / size}${unit}`;
}

/** Where something was recorded: the hours that a box has been known for, a day at most. `end` is null where
 * that is now. `oldest` and `newest` are unix seconds; 0: not known.
 * @param {number} oldest @param {number} newest @param {number} now */
export function opening(oldest, newest, now) {
  const hours = oldest ? Math.max(1, Math.ceil((now - oldest) / HOUR)) : 24;
  const span = Math.min(DAY, hours * HOUR);
  return { span, end: newest && now - newest > span ? newest : null };
}

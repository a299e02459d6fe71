// @ts-check
// Points of a history as layers of a stack: who held how much, from the bottom up.

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
  unseen: "holder not visible", unknown: "not told apart", cache: "page cache",
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

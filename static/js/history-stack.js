// Points of a history as layers of a stack: who held how much, from the bottom up.

const KIB_PER_GIB = 2 ** 20;
const TONES = 6;

const ORDER = [
  "server", "process", "others", "programs", "shared", "kernel", "hugepages", "reserved", "usual",
  "driver_pool", "unseen", "unattributed", "unknown", "cache", "free",
];
const NAMES = {
  others: "other processes", programs: "other programs", shared: "shared memory", hugepages: "huge pages",
  reserved: "reserved by the driver", usual: "always in use", driver_pool: "driver’s page pool",
  unseen: "holder not visible", unknown: "not told apart", cache: "page cache",
};

const tones = new Map(); // server or process → its shade, for as long as the page is open

export function tone(key) {
  if (!tones.has(key)) tones.set(key, (tones.size % TONES) + 1);
  return tones.get(key);
}

/** The parts of the points, the lowest first: {key, kind, name, tone, values in GiB}. */
export function layers(columns) {
  const found = Object.entries(columns)
    .filter(([column]) => column.startsWith("="))
    .map(([column, kibs]) => {
      const [kind, ...rest] = column.slice(1).split(":");
      const isNamed = kind === "server" || kind === "process";
      const values = kibs.map((kib) => (kib === null ? null : kib / KIB_PER_GIB));
      const most = values.reduce((greatest, value) => Math.max(greatest, value ?? 0), 0);
      return { key: column, kind, name: rest.join(":") || NAMES[kind] || kind, isNamed, values, most };
    })
    .filter((layer) => layer.most >= 0.005 || layer.kind === "free");
  const rank = (layer) => (ORDER.indexOf(layer.kind) + 1 || ORDER.length) * 1e6 - layer.most;
  found.sort((one, other) => rank(one) - rank(other) || (one.key < other.key ? -1 : 1));
  for (const layer of found) layer.tone = layer.isNamed ? tone(layer.key) : 0;
  return found;
}

/** For each layer, what it and all below it hold together. */
export function heights(stack) {
  let below = null;
  return stack.map((layer) => {
    below = layer.values.map((value, index) => (value === null ? null : value + (below?.[index] ?? 0)));
    return below;
  });
}

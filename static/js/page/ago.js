// @ts-check
// Spans of time in words.

/** @type {[unit: string, seconds: number][]} */
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

/** In the largest unit alone: "3 min ago", "in 2 d". @param {number} seconds */
export function relative(seconds) {
  const size = Math.abs(seconds);
  if (size < 5) return "just now";
  const [unit, length] = UNITS.find(([, length]) => size >= length) ?? ["s", 1];
  const text = `${Math.floor(size / length)} ${unit}`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

/** In the two largest units: "1 h 5 min". @param {number} seconds */
export function span(seconds) {
  let left = Math.max(0, Math.floor(seconds));
  const parts = [];
  for (const [unit, length] of UNITS) {
    const amount = Math.floor(left / length);
    left %= length;
    if (amount || (unit === "s" && !parts.length)) parts.push(`${amount} ${unit}`);
    else if (parts.length) break;
  }
  return parts.slice(0, 2).join(" ");
}

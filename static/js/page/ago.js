// @ts-check
// Spans of time in words.

/** @type {[unit: string, seconds: number][]} */
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

const DAY = 86400;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/**
 * In the largest unit alone: "3 min ago", "in 2 h"; from a day on "22 Nov 18:04".
 * @param {number} seconds @param {string} at the same moment as the page has it, in its time zone
 */
export function relative(seconds, at) {
  const size = Math.abs(seconds);
  if (size >= DAY) return moment(at);
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

/** "22 Nov 18:04"; with the year where that is another one. @param {string} at of ISO 8601 */
export function moment(at) {
  const [, year, month, day, time] = /^(\d+)-(\d+)-(\d+)T(\d+:\d+)/.exec(at) ?? [];
  const shown = Number(year) === new Date().getFullYear() ? "" : ` ${year}`;
  return `${Number(day)} ${MONTHS[Number(month) - 1]}${shown} ${time}`;
}

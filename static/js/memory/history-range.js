// @ts-check
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

/** Where something was recorded: the hours that a box has been known for, a day at most. `end` is null where
 * that is now. `oldest` and `newest` are unix seconds; 0: not known.
 * @param {number} oldest @param {number} newest @param {number} now */
export function opening(oldest, newest, now) {
  const hours = oldest ? Math.max(1, Math.ceil((now - oldest) / HOUR)) : 24;
  const span = Math.min(DAY, hours * HOUR);
  return { span, end: newest && now - newest > span ? newest : null };
}

// @ts-check
// The order of a table's rows, and which of them a filter keeps: what needs no page.

const words = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

/**
 * Compares two cells. A cell without a value comes last, whichever way the table is sorted.
 * @param {string} one
 * @param {string} other
 * @param {1 | -1} way 1: upwards
 */
export function compare(one, other, way) {
  if (isEmpty(one) || isEmpty(other)) return Number(isEmpty(one)) - Number(isEmpty(other));
  const [first, second] = [Number(one), Number(other)];
  const found = Number.isNaN(first) || Number.isNaN(second) ? words.compare(one, other) : first - second;
  return found * way;
}

/** @param {string} value */
function isEmpty(value) {
  return value === "" || value === "–";
}

/**
 * Whether a row has all that was typed, in any order.
 * @param {string} text the row's
 * @param {string} typed
 */
export function matches(text, typed) {
  const lower = text.toLowerCase();
  return typed
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}

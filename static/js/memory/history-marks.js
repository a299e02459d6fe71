// @ts-check
// Which of a chart's marks may cross it: many lines beside each other are a bar code over the data.

const LEAST = 24; // px between two lines
const MOST = 16; // lines in a chart

/**
 * Whether each of these places (px, from left to right) has room for a line across the chart. The
 * others are ticks at its edge: what stands closely is looked at by a shorter range.
 * @param {number[]} places @param {number} width px of the chart
 * @returns {boolean[]}
 */
export function spaced(places, width) {
  const room = Math.max(LEAST, width / MOST);
  let last = -Infinity;
  return places.map((place) => {
    if (place - last < room) return false;
    last = place;
    return true;
  });
}

// @ts-check
// Only the lines that were found, as if they were a log: what the view shows by position.

import { LogModel } from "./model.js";

export class LogHits extends LogModel {
  constructor() {
    super();
    /** @type {number[]} */
    this.numbers = [];
    this.rows.everyLine = true;
  }

  // Hits come in ascending order here, so that positions stay.
  /** @param {number[]} numbers */
  grow(numbers) {
    const isLonger = numbers === this.numbers || this.numbers.every((number, at) => numbers[at] === number);
    if (!isLonger) this.reset();
    this.numbers = numbers;
    this.upto = numbers.length;
  }

  // raw: [[number, at, stream, text], ...]; a line that is gone meanwhile leaves a word.
  /** @param {Log.Picked[]} raw */
  picked(raw) {
    const [head, tail] = [raw.at(0), raw.at(-1)];
    if (!head || !tail) return;
    const first = this.position(head[0]);
    const last = this.position(tail[0]);
    /** @type {Map<number, Log.Raw>} */
    const byNumber = new Map(raw.map(([number, ...line]) => [number, line]));
    /** @type {Log.Raw} */
    const gone = ["", "i", "… this line was removed"];
    const numbers = this.numbers.slice(first - 1, last);
    this.window(first, numbers.map((number) => byNumber.get(number) ?? gone));
  }

  /** @param {number} first @param {Log.Raw[]} raw @returns {Log.Line[]} */
  made(first, raw) {
    return super.made(first, raw).map((line, index) => ({
      ...line,
      number: this.numbers[first - 1 + index] ?? line.number,
    }));
  }

  /** @param {number} number */
  has(number) {
    return this.numbers[this.position(number) - 1] === number;
  }

  /** @param {number} number */
  line(number) {
    return this.lines[this.position(number) - this.first];
  }

  // The position, from 1, of the first hit at or after this line.
  /** @param {number} number */
  position(number) {
    let low = 0;
    let high = this.numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (/** @type {number} */ (this.numbers[middle]) < number) low = middle + 1;
      else high = middle;
    }
    return low + 1;
  }
}

// Only the lines that were found, as if they were a log: what the view shows by position.

import { LogModel } from "./log-model.js";

export class LogHits extends LogModel {
  constructor() {
    super();
    this.numbers = [];
    this.rows.everyLine = true;
  }

  // Hits come in ascending order here, so that positions stay.
  grow(numbers) {
    const isOther = numbers[0] !== this.numbers[0] || numbers.length < this.numbers.length;
    if (isOther) this.reset();
    this.numbers = numbers;
    this.upto = numbers.length;
  }

  // raw: [[number, at, stream, text], ...]; a line that is gone meanwhile leaves a word.
  picked(raw) {
    if (!raw.length) return;
    const first = this.position(raw[0][0]);
    const last = this.position(raw.at(-1)[0]);
    const byNumber = new Map(raw.map(([number, ...line]) => [number, line]));
    const gone = ["", "i", "… this line was removed"];
    const numbers = this.numbers.slice(first - 1, last);
    this.window(first, numbers.map((number) => byNumber.get(number) ?? gone));
  }

  made(first, raw) {
    return super.made(first, raw).map((line, index) => ({
      ...line,
      number: this.numbers[first - 1 + index],
    }));
  }

  line(number) {
    return this.lines[this.position(number) - this.first];
  }

  // The position, from 1, of the first hit at or after this line.
  position(number) {
    let low = 0;
    let high = this.numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.numbers[middle] < number) low = middle + 1;
      else high = middle;
    }
    return low + 1;
  }
}

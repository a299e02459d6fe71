// @ts-check
// The part of a log that this page holds: first..last without holes, of upto in all. These are
// positions: they are line numbers, but for lines that were cut out, all of which have one.

import { Rows } from "./rows.js";

const MOST = 40_000;
const TRIMMED = 20_000;

export class LogModel {
  constructor() {
    this.rows = new Rows();
    /** @type {Log.Line[]} */
    this.lines = [];
    this.first = 1;
    /** @type {Log.Gap | null} */
    this.gap = null;
    this.upto = 0;
  }

  reset() {
    this.lines = [];
    this.first = 1;
    this.gap = null;
    this.upto = 0;
    this.rows.clear();
  }

  // gap: the first and the last number of the lines that were cut out; null: none.
  /** @param {Log.Gap | null} gap */
  cut(gap) {
    this.gap = gap;
  }

  /** @param {number} number */
  position(number) {
    if (!this.gap || number <= this.gap[0]) return number;
    return Math.max(number - (this.gap[1] - this.gap[0]), this.gap[0]);
  }

  /** @param {number} position */
  number(position) {
    return !this.gap || position <= this.gap[0] ? position : position + this.gap[1] - this.gap[0];
  }

  get last() {
    return this.first + this.lines.length - 1;
  }

  get hasEnd() {
    return this.last >= this.upto;
  }

  /** @param {number} number */
  line(number) {
    return this.lines[this.position(number) - this.first];
  }

  /** @param {number} number */
  row(number) {
    return this.line(number)?.row;
  }

  // Pushed lines. Returns the rows that show something else now; null when all were made anew.
  /** @param {number} first @param {Log.Raw[]} raw @param {boolean} keepsEnd @returns {Set<Log.Row> | null} */
  push(first, raw, keepsEnd) {
    const lines = this.made(first, raw);
    const before = this.last;
    this.upto = Math.max(this.upto, first + raw.length - 1);
    if (first > before + 1) {
      if (!keepsEnd && this.lines.length) return new Set();
      this.#replace(first, lines);
      return null;
    }
    if (!keepsEnd && this.lines.length >= MOST) return new Set();
    const fresh = lines.slice(before + 1 - first);
    this.lines.push(...fresh);
    if (keepsEnd && this.lines.length > MOST) {
      this.#replace(this.last - TRIMMED + 1, this.lines.slice(-TRIMMED));
      return null;
    }
    return this.rows.append(fresh);
  }

  // Lines that were asked for: joined to what is here, or in its place.
  /** @param {number} first @param {Log.Raw[]} raw */
  window(first, raw) {
    if (!raw.length) return;
    const lines = this.made(first, raw);
    const end = first + raw.length - 1;
    this.upto = Math.max(this.upto, end);
    if (first <= this.last + 1 && end >= this.first - 1 && this.lines.length) {
      const before = lines.slice(0, Math.max(this.first - first, 0));
      const after = lines.slice(Math.max(this.last + 1 - first, 0));
      const all = before.concat(this.lines, after);
      const start = Math.min(first, this.first);
      // Scrolled on for long: the far end goes.
      if (all.length <= MOST) this.#replace(start, all);
      else if (after.length) this.#replace(start + all.length - TRIMMED, all.slice(-TRIMMED));
      else this.#replace(start, all.slice(0, TRIMMED));
    } else {
      this.#replace(first, lines);
    }
  }

  /** @param {boolean} yes */
  showEveryLine(yes) {
    this.rows.everyLine = yes;
    this.rows.rebuild(this.lines);
  }

  /** @param {boolean} yes */
  foldPeriodic(yes) {
    this.rows.foldsPeriodic = yes;
    this.rows.rebuild(this.lines);
  }

  /** @param {number} first @param {Log.Line[]} lines */
  #replace(first, lines) {
    this.first = first;
    this.lines = lines;
    this.rows.rebuild(lines);
  }

  /** @param {number} first @param {Log.Raw[]} raw @returns {Log.Line[]} */
  made(first, raw) {
    return raw.map(([at, stream, text], index) => ({
      number: this.number(first + index),
      at,
      stream,
      text,
    }));
  }
}

// Only the lines that were found, as if they were a log: what the view shows by position.
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

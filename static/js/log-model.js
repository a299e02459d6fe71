// The part of a log that this page holds: first..last without holes, of upto in all. These are
// positions: they are line numbers, but for lines that were cut out, all of which have one.

import { Rows } from "./log-rows.js";

const MOST = 40_000;
const TRIMMED = 20_000;

export class LogModel {
  constructor() {
    this.rows = new Rows();
    this.reset();
  }

  reset() {
    this.lines = [];
    this.first = 1;
    this.gap = null;
    this.upto = 0;
    this.rows.clear();
  }

  // gap: the first and the last number of the lines that were cut out; null: none.
  cut(gap) {
    this.gap = gap;
  }

  position(number) {
    if (!this.gap || number <= this.gap[0]) return number;
    return Math.max(number - (this.gap[1] - this.gap[0]), this.gap[0]);
  }

  number(position) {
    return !this.gap || position <= this.gap[0] ? position : position + this.gap[1] - this.gap[0];
  }

  get last() {
    return this.first + this.lines.length - 1;
  }

  get hasEnd() {
    return this.last >= this.upto;
  }

  line(number) {
    return this.lines[this.position(number) - this.first];
  }

  row(number) {
    return this.line(number)?.row;
  }

  // Pushed lines. Returns the rows that show something else now; null when all were made anew.
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

  showEveryLine(yes) {
    this.rows.everyLine = yes;
    this.rows.rebuild(this.lines);
  }

  foldPeriodic(yes) {
    this.rows.foldsPeriodic = yes;
    this.rows.rebuild(this.lines);
  }

  #replace(first, lines) {
    this.first = first;
    this.lines = lines;
    this.rows.rebuild(lines);
  }

  made(first, raw) {
    return raw.map(([at, stream, text], index) => ({
      number: this.number(first + index),
      at,
      stream,
      text,
    }));
  }
}

// @ts-check
// From lines to rows: the refreshes of one progress bar share a row, as on a terminal.

import { plain } from "./terminal.js";

// tqdm with a total, also as vLLM formats it ("25% Completed | 1/4 [00:01<00:03, …]").
const WITH_TOTAL = /^(.*?)(\d{1,3})%\s*(?:\|[^|]*\||[A-Za-z]+ \|)\s*\S+?\/(\S+) \[/;
// tqdm without one ("1200it [00:03, 400it/s]").
const WITHOUT_TOTAL = /^(.*?)(\d[\d.]*)[kMGT]?(?:it|B|\w*) \[\d+:\d\d(?::\d\d)?, /;
const TIME = /(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?/g;
// "(Worker_TP0 pid=123)", "[2026-03-30 14:21:44 TP0]": these tell two ranks' bars apart.
const RANK = /^((?:\s*(?:\([^)]*\)|\[[^\]]*\]))*)(.*)$/s;

// What engines write every few seconds: "Decode batch, #running-req: 2, …", "Engine 000: Avg prompt
// throughput: …". llama.cpp writes of requests only.
const PERIODIC = /\b(Prefill batch|Decode batch|Avg prompt throughput)\b/;

/** @param {string} text */
export function periodic(text) {
  const found = PERIODIC.exec(text);
  if (!found) return null;
  const [, rank = ""] = RANK.exec(plain(text).replace(TIME, "").replace(/\d{2}-\d{2}\s/, "")) ?? [];
  return { key: `${rank.trim()} ${found[1]}` };
}

/** @param {string} text @returns {Log.Bar | null} */
export function bar(text) {
  if (!text.includes("[") || !/[%\d]/.test(text)) return null;
  const shown = plain(text);
  const found = WITH_TOTAL.exec(shown) ?? WITHOUT_TOTAL.exec(shown);
  if (!found) return null;
  const [, before = "", done, total] = found;
  const [, rank = "", title = ""] = RANK.exec(before.replace(TIME, "")) ?? [];
  // Titles count along: "Capturing batches (bs=4 avail_mem=10.21 GB)".
  const key = `${rank.trim()} ${title.replace(/\d+(?:\.\d+)?/g, "#").trim()} ${total ?? ""}`;
  return { key, done: Number(done), hasTotal: total !== undefined };
}

// A bar that starts over is another bar. One that falls back a little is two processes
// that print the same bar by turns.
/** @param {Log.Bar} before @param {Log.Bar} now */
function isNext(before, now) {
  if (now.done >= before.done) return true;
  return before.hasTotal && before.done < 100 && now.done > 10;
}

export class Rows {
  constructor() {
    this.everyLine = false;
    this.foldsPeriodic = false;
    /** @type {Log.Row[]} */
    this.all = [];
    /** @type {Map<string, Log.Row>} */
    this.open = new Map();
    /** By kind and rank, until another line comes. @type {Map<string, Log.Row>} */
    this.periods = new Map();
  }

  clear() {
    this.all = [];
    this.open = new Map();
    this.periods = new Map();
  }

  /** @param {Log.Line[]} lines */
  rebuild(lines) {
    this.clear();
    this.append(lines);
  }

  // Returns the rows that existed already and show something else now.
  /** @param {Log.Line[]} lines */
  append(lines) {
    /** @type {Set<Log.Row>} */
    const changed = new Set();
    for (const line of lines) {
      const row = this.#folded(line) ?? (this.everyLine ? null : this.#shared(line));
      if (row) changed.add(row);
      else {
        line.row = { line, first: line.number, refreshes: 1, index: this.all.length };
        this.all.push(line.row);
        if (this.foldsPeriodic && line.periodic) this.periods.set(line.periodic.key, line.row);
        if (line.bar) this.open.set(line.bar.key, line.row);
      }
    }
    return changed;
  }

  /** @param {Log.Line} line */
  #folded(line) {
    if (!this.foldsPeriodic) return null;
    line.periodic ??= periodic(line.text) ?? false;
    if (!line.periodic) {
      this.periods.clear();
      return null;
    }
    const row = this.periods.get(line.periodic.key);
    if (!row) return null;
    row.line = line;
    row.refreshes += 1;
    return (line.row = row);
  }

  /** @param {Log.Line} line */
  #shared(line) {
    line.bar ??= bar(line.text) ?? false;
    if (line.bar) {
      const row = this.open.get(line.bar.key);
      if (!row?.line.bar || !isNext(row.line.bar, line.bar)) return null;
      row.line = line;
      row.refreshes += 1;
      return (line.row = row);
    }
    if (!this.open.size) return null;
    // tqdm ends with an empty line of its own.
    const last = this.all.at(-1);
    if (last?.line.bar && !line.text.trim()) return (line.row = last);
    this.open.clear();
    return null;
  }
}

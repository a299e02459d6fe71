// @ts-check
// Shows the rows around the scroll position; the others are only height.

import { rowElement } from "./row.js";
import { find } from "../page/parts.js";
import { whenReleased } from "../page/pointer-guard.js";

/** @import { LogModel } from "./model.js" */

const MARGIN = 800; // px above and below that are laid out too
// Browsers give up on heights beyond some 17 million px.
const TALLEST = 12_000_000;

/** A line, and how far below the top edge it is. @typedef {{number: number, offset: number}} Anchor */

export class LogView {
  /** @type {number | undefined} */
  frame;
  /** Of all rows from the top of the canvas, with one more for the end. */
  tops = new Float64Array(1);
  hasTops = false;
  unloadedHeight = 0;

  /**
   * @param {HTMLElement} scroller
   * @param {LogModel} model
   * @param {{wants(where: Log.Where): void, followed(yes: boolean): void}} on
   */
  constructor(scroller, model, on) {
    this.scroller = scroller;
    this.model = model;
    this.on = on;
    this.canvas = find(scroller, ".log-canvas", HTMLElement);
    this.block = find(scroller, ".log-rows", HTMLElement);
    /** @type {Map<Log.Row, HTMLElement>} */
    this.elements = new Map();
    /** Drawn before, of rows that were made anew: by line. @type {Map<number, HTMLElement>} */
    this.former = new Map();
    this.isFollowing = true;
    this.isWrapped = false;
    this.address = ""; // of the page that shows this run for ever
    /** What is known of a line. @type {((number: number) => Log.Note | undefined) | null} */
    this.note = null;
    /** Where searched text stands in a line. @type {Log.Marker | null} */
    this.mark = null;
    /** The lines, [first, last], that a link or a search points at. @type {[number, number] | null} */
    this.target = null;
    this.lastTop = 0;
    this.rowHeight = 18;
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    // Who selects text wants it to stay.
    this.selected = () => {
      const selection = document.getSelection();
      if (selection && !selection.isCollapsed && this.block.contains(selection.anchorNode)) this.follow(false);
    };
    document.addEventListener("selectionchange", this.selected);
    this.resized = new ResizeObserver(() => this.relayout());
    this.resized.observe(scroller);
  }

  close() {
    this.resized.disconnect();
    document.removeEventListener("selectionchange", this.selected);
    if (this.frame !== undefined) cancelAnimationFrame(this.frame);
  }

  /** @param {boolean} yes */
  follow(yes) {
    if (this.isFollowing === yes) return;
    this.isFollowing = yes;
    this.on.followed(yes);
    this.draw();
  }

  /** @param {boolean} yes */
  wrap(yes) {
    this.isWrapped = yes;
    this.scroller.classList.toggle("is-wrapped", yes);
    this.relayout();
  }

  // Everything that was measured or drawn may be different now.
  relayout() {
    const anchor = this.#anchor();
    for (const row of this.model.rows.all) row.height = undefined;
    this.#renew();
    this.#measureRow();
    this.#draw(anchor);
  }

  // Rows were made anew (a window, every line shown) or look different (another query). Take
  // the anchor before the model changes.
  /** @param {Anchor | null} [anchor] */
  redraw(anchor = this.#anchor()) {
    this.#renew();
    this.#draw(anchor);
  }

  // The line that the reader looks at, and how far below the top edge it is.
  anchor() {
    return this.#anchor();
  }

  // The rows that can be seen, from the first that is whole.
  visible() {
    const { scrollTop, clientHeight } = this.scroller;
    const rows = this.model.rows.all;
    const from = this.#at(scrollTop);
    return rows.slice(this.#top(from) < scrollTop ? from + 1 : from, this.#at(scrollTop + clientHeight - 1) + 1);
  }

  // These rows show something else now.
  /** @param {Iterable<Log.Row>} rows */
  changed(rows) {
    for (const row of rows) {
      this.elements.get(row)?.remove();
      this.elements.delete(row);
      row.height = undefined;
    }
    this.draw();
  }

  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.#draw(this.#anchor());
    });
  }

  // Puts a line a third down the page. False when it is not loaded.
  /** @param {number} number @param {[number, number] | null} [target] */
  show(number, target = [number, number]) {
    const row = this.model.row(number);
    if (!row) return false;
    this.isFollowing = false;
    this.on.followed(false);
    this.target = target;
    this.#renew();
    this.#draw({ number, offset: Math.round(this.scroller.clientHeight / 3) });
    return true;
  }

  get atEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    return scrollTop + clientHeight >= scrollHeight - 4;
  }

  #scrolled() {
    const top = this.scroller.scrollTop;
    const wentUp = top < this.lastTop - 1;
    this.lastTop = top;
    if (wentUp && !this.atEnd) this.follow(false);
    else if (this.atEnd && this.model.hasEnd) this.follow(true);
    this.draw();
  }

  // What looks the same afterwards stays in its place: a button there may be pressed just now.
  #renew() {
    for (const [row, element] of this.elements) this.former.set(row.line.number, element);
    this.elements.clear();
  }

  #forget() {
    this.block.replaceChildren();
    this.elements.clear();
    this.former.clear();
  }

  #measureRow() {
    const probe = document.createElement("div");
    probe.className = "log-row";
    probe.textContent = "0";
    this.block.append(probe);
    this.rowHeight = probe.getBoundingClientRect().height || this.rowHeight;
    probe.remove();
  }

  // Tops of all rows from the top of the canvas, with one more for the end.
  #layOut() {
    const { model } = this;
    const rows = model.rows.all;
    const unloaded = model.first - 1 + Math.max(model.upto - model.last, 0);
    const each = unloaded ? Math.min(this.rowHeight, TALLEST / unloaded) : this.rowHeight;
    this.unloadedHeight = each;
    const tops = (this.tops = new Float64Array(rows.length + 1));
    this.hasTops = true;
    let top = (model.first - 1) * each;
    for (const [i, row] of rows.entries()) {
      tops[i] = top;
      top += (this.isWrapped && row.height) || this.rowHeight;
    }
    tops[rows.length] = top;
    this.canvas.style.height = `${top + Math.max(model.upto - model.last, 0) * each}px`;
  }

  /** @param {number} index */
  #top(index) {
    return this.tops[index] ?? 0;
  }

  // The index of the row at this height.
  /** @param {number} top */
  #at(top) {
    let low = 0;
    let high = this.tops.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#top(middle) <= top) low = middle;
      else high = middle - 1;
    }
    return Math.max(low, 0);
  }

  /** @returns {Anchor | null} */
  #anchor() {
    const rows = this.model.rows.all;
    if (this.isFollowing || !this.hasTops || !rows.length) return null;
    const top = this.scroller.scrollTop;
    const row = rows[this.#at(top)];
    if (!row || row.index >= this.tops.length - 1) return null;
    return { number: row.line.number, offset: this.#top(row.index) - top };
  }

  /** @param {Anchor | null} anchor */
  #draw(anchor) {
    const { scroller, model } = this;
    const rows = model.rows.all;
    this.#layOut();
    if (this.isFollowing) this.#toEnd();
    else if (anchor) this.#scrollTo(anchor);
    if (rows.length) {
      this.#fill();
      if (this.isWrapped && this.#measure()) {
        this.#layOut();
        if (this.isFollowing) this.#toEnd();
        else if (anchor) this.#scrollTo(anchor);
        this.#fill();
      }
    } else this.#forget();
    this.lastTop = scroller.scrollTop;
    this.#askForMore();
  }

  #toEnd() {
    whenReleased(() => {
      if (this.isFollowing) this.scroller.scrollTop = this.scroller.scrollHeight;
    });
  }

  /** @param {Anchor} anchor */
  #scrollTo(anchor) {
    const row = this.model.row(anchor.number);
    if (!row) return;
    const top = this.#top(row.index) - anchor.offset;
    if (Math.abs(top - this.scroller.scrollTop) >= 1) this.scroller.scrollTop = top;
  }

  // Puts the elements of the visible rows, and no others, into the block.
  #fill() {
    const { scroller, block, elements } = this;
    const rows = this.model.rows.all;
    const from = this.#at(scroller.scrollTop - MARGIN);
    const to = this.#at(scroller.scrollTop + scroller.clientHeight + MARGIN);
    const wanted = new Set(rows.slice(from, to + 1));
    for (const [row, element] of elements) {
      if (wanted.has(row)) continue;
      element.remove();
      elements.delete(row);
    }
    const isTarget = this.#targeted();
    const shown = [...wanted].map((row) => elements.get(row) ?? this.#element(row, isTarget(row)));
    for (const element of this.former.values()) element.remove();
    this.former.clear();
    let next = block.firstChild;
    for (const element of shown) {
      if (element === next) next = next.nextSibling;
      else block.insertBefore(element, next);
    }
    block.style.transform = `translateY(${this.#top(from)}px)`;
  }

  /** @param {Log.Row} row @param {boolean} isTarget */
  #element(row, isTarget) {
    const fresh = rowElement(row, this.mark, this.address, this.note);
    fresh.classList.toggle("is-target", isTarget);
    const former = this.former.get(row.line.number);
    const element = former?.isEqualNode(fresh) ? former : fresh;
    if (element === former) this.former.delete(row.line.number);
    this.elements.set(row, element);
    return element;
  }

  #targeted() {
    const [from, to] = this.target ?? [0, 0];
    const only = this.model.row(from);
    return from === to
      ? (/** @type {Log.Row} */ row) => row === only
      : (/** @type {Log.Row} */ row) => row.line.number >= from && row.line.number <= to;
  }

  #measure() {
    let isNew = false;
    for (const [row, element] of this.elements) {
      if (row.height !== undefined) continue;
      row.height = element.getBoundingClientRect().height;
      isNew ||= row.height !== this.rowHeight;
    }
    return isNew;
  }

  #askForMore() {
    const { scroller, model } = this;
    const top = scroller.scrollTop;
    const bottom = top + scroller.clientHeight;
    const loadedFrom = this.#top(0);
    const loadedTo = this.#top(this.tops.length - 1);
    if (model.first > 1 && top < loadedFrom + MARGIN / 2) {
      this.on.wants(top < loadedFrom - 1500 * this.unloadedHeight
        ? { near: Math.floor(top / this.unloadedHeight) + 1 }
        : { before: model.first });
    } else if (!model.hasEnd && bottom > loadedTo - MARGIN / 2) {
      const past = (top - loadedTo) / this.unloadedHeight;
      this.on.wants(past > 1500 && !this.isFollowing
        ? { near: model.last + Math.floor(past) }
        : { from: model.last + 1 });
    }
  }
}

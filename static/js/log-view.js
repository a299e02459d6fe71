// Shows the rows around the scroll position; the others are only height.

import { rowElement } from "./log-row.js";

const MARGIN = 800; // px above and below that are laid out too
// Browsers give up on heights beyond some 17 million px.
const TALLEST = 12_000_000;

export class LogView {
  // on: {wants(number) lines that are not here, followed(yes)}
  constructor(scroller, model, on) {
    this.scroller = scroller;
    this.model = model;
    this.on = on;
    this.canvas = scroller.querySelector(".log-canvas");
    this.block = scroller.querySelector(".log-rows");
    this.elements = new Map();
    this.isFollowing = true;
    this.isWrapped = false;
    this.address = ""; // of the page that shows this run for ever
    this.note = null; // what is known of a line
    this.mark = null; // where searched text stands in a line
    this.target = null; // the lines, [first, last], that a link or a search points at
    this.lastTop = 0;
    this.rowHeight = 18;
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.resized = new ResizeObserver(() => this.relayout());
    this.resized.observe(scroller);
  }

  close() {
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
  }

  follow(yes) {
    if (this.isFollowing === yes) return;
    this.isFollowing = yes;
    this.on.followed(yes);
    this.draw();
  }

  wrap(yes) {
    this.isWrapped = yes;
    this.scroller.classList.toggle("is-wrapped", yes);
    this.relayout();
  }

  // Everything that was measured or drawn may be different now.
  relayout() {
    const anchor = this.#anchor();
    for (const row of this.model.rows.all) row.height = undefined;
    this.#forget();
    this.#measureRow();
    this.#draw(anchor);
  }

  // Rows were made anew (a window, every line shown) or look different (another query). Take
  // the anchor before the model changes.
  redraw(anchor = this.#anchor()) {
    this.#forget();
    this.#draw(anchor);
  }

  // The line that the reader looks at, and how far below the top edge it is.
  anchor() {
    return this.#anchor();
  }

  // These rows show something else now.
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
  show(number, target = [number, number]) {
    const row = this.model.row(number);
    if (!row) return false;
    this.isFollowing = false;
    this.on.followed(false);
    this.target = target;
    this.#forget();
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

  #forget() {
    this.block.replaceChildren();
    this.elements.clear();
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
    let top = (model.first - 1) * each;
    for (let i = 0; i < rows.length; i++) {
      tops[i] = top;
      top += (this.isWrapped && rows[i].height) || this.rowHeight;
    }
    tops[rows.length] = top;
    this.canvas.style.height = `${top + Math.max(model.upto - model.last, 0) * each}px`;
  }

  // The index of the row at this height.
  #at(top) {
    let low = 0;
    let high = this.tops.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= top) low = middle;
      else high = middle - 1;
    }
    return Math.max(low, 0);
  }

  #anchor() {
    const rows = this.model.rows.all;
    if (this.isFollowing || !this.tops || !rows.length) return null;
    const top = this.scroller.scrollTop;
    const row = rows[this.#at(top)];
    if (!row || row.index >= this.tops.length - 1) return null;
    return { number: row.line.number, offset: this.tops[row.index] - top };
  }

  #draw(anchor) {
    const { scroller, model } = this;
    const rows = model.rows.all;
    this.#layOut();
    if (this.isFollowing) scroller.scrollTop = scroller.scrollHeight;
    else if (anchor) this.#scrollTo(anchor);
    if (rows.length) {
      this.#fill();
      if (this.isWrapped && this.#measure()) {
        this.#layOut();
        if (this.isFollowing) scroller.scrollTop = scroller.scrollHeight;
        else if (anchor) this.#scrollTo(anchor);
        this.#fill();
      }
    } else this.#forget();
    this.lastTop = scroller.scrollTop;
    this.#askForMore();
  }

  #scrollTo(anchor) {
    const row = this.model.row(anchor.number);
    if (!row) return;
    const top = this.tops[row.index] - anchor.offset;
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
    let next = block.firstChild;
    for (const row of wanted) {
      let element = elements.get(row);
      if (!element) {
        element = rowElement(row, this.mark, this.address, this.note);
        element.classList.toggle("is-target", isTarget(row));
        elements.set(row, element);
      }
      if (element === next) next = next.nextSibling;
      else block.insertBefore(element, next);
    }
    block.style.transform = `translateY(${this.tops[from]}px)`;
  }

  #targeted() {
    const [from, to] = this.target ?? [0, 0];
    const only = this.model.row(from);
    return from === to
      ? (row) => row === only
      : (row) => row.line.number >= from && row.line.number <= to;
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
    const { scroller, model, tops } = this;
    const top = scroller.scrollTop;
    const bottom = top + scroller.clientHeight;
    const loadedFrom = tops[0];
    const loadedTo = tops[tops.length - 1];
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

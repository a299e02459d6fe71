// @ts-check
// A run's log as it is read: what is loaded, shown, found, followed. The template holds the toolbar.

import { LogFind } from "./find.js";
import { LogHits } from "./hits.js";
import { LogModel } from "./model.js";
import { LogNewer, LogStatus } from "./status.js";
import { LogOutline } from "./outline.js";
import { explain } from "./row.js";
import { LogSocket } from "./socket.js";
import { LogTarget } from "./target.js";
import { LogView } from "./view.js";
import { all, around, find } from "../page/parts.js";

/** @import { Anchor } from "./view.js" */

const TAIL = 2000;
const WINDOW = 1000;
// Farther behind than this (a tab that slept), the end is worth more than the way there.
const FAR = 5000;
const ANSWER_WITHIN = 10_000;

class LogReader {
  /** @type {LogSocket | undefined} */
  socket;
  /** When lines were asked for that have not come. @type {number | null} */
  awaited = null;
  /** What to show as soon as it is here. @type {{number: number, target: [number, number] | null} | null} */
  goal = null;
  pushed = 0; // up to where this connection has pushed lines, or was told to leave them out
  hasTail = false;
  isComplete = false;
  isOnly = false;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.scroller = find(root, ".log-scroller", HTMLElement);
    this.status = new LogStatus(root);
    this.model = new LogModel();
    this.hits = new LogHits();
    this.view = new LogView(this.scroller, this.model, {
      wants: (where) => this.#want(where),
      followed: this.#tellFollowing,
    });
    this.find = new LogFind(find(root, ".log-find", HTMLFormElement), {
      ask: (wish) => this.socket?.send(wish),
      show: (number) => this.#goTo(number),
      here: () => (this.isOnly ? 0 : (this.view.anchor()?.number ?? this.model.number(this.model.last))),
      mark: (mark) => {
        this.view.mark = mark;
        this.view.redraw();
      },
      changed: () => this.#showHits(),
      closed: () => this.scroller.focus(),
    });
    this.outline = new LogOutline(root, {
      ask: (wish) => this.socket?.send(wish),
      show: (number) => this.#goTo(number),
      share: (number) => this.model.position(number) / Math.max(this.model.upto, 1),
      changed: () => this.view.redraw(),
    });
    this.view.note = (number) => this.outline.note(number);
    this.target = new LogTarget(root, {
      ask: (wish) => this.socket?.send(wish),
      line: (number) => this.model.line(number),
      show: (first, last) => this.#goTo(first, [first, last]),
    });
    this.newer = new LogNewer(root, () => !this.view.isFollowing || this.isOnly || this.target.lines !== null);
    root.addEventListener("click", this);
    root.addEventListener("keydown", this);
    this.#set("wrap", remembered("log.wrap") !== "no");
    this.#set("times", remembered("log.times") === "yes");
    this.#set("harmless", remembered("log.harmless") !== "no");
    this.#open();
  }

  close() {
    this.socket?.close();
    this.view.close();
    this.target.close();
    this.outline.close();
    this.newer.close();
    this.root.removeEventListener("click", this);
    this.root.removeEventListener("keydown", this);
  }

  // Another run has come: its log in place of this one.
  renew() {
    for (const link of all(this.root, ".log-download", HTMLAnchorElement)) {
      const path = link.getAttribute("href") ?? "";
      link.href = path.replace(/\/runs\/\d+\//, `/runs/${this.root.dataset.run}/`);
    }
    this.scroller.setAttribute("aria-label", `Log of run ${this.root.dataset.run}`);
    this.socket?.close();
    this.target.forget();
    this.status.lines(1); // until its first word tells
    this.#open();
  }

  /** @param {Event} event */
  handleEvent(event) {
    if (event instanceof KeyboardEvent) this.#key(event);
    else if (event instanceof MouseEvent) this.#click(event);
  }

  #open() {
    this.model.reset();
    this.awaited = null;
    this.goal = null;
    this.status.seen = 0;
    this.pushed = 0;
    this.hasTail = false;
    this.isComplete = false;
    this.isOnly = false;
    this.outline.forget();
    this.view.model = this.model;
    this.view.isFollowing = true;
    this.view.target = null;
    this.view.address = `/runs/${this.root.dataset.run}/`;
    this.view.redraw(null);
    this.#tellFollowing();
    this.socket = new LogSocket(this.root.dataset.run ?? "", {
      message: (message) => this.#message(message),
      state: (name, words) => this.isComplete && name === "open" ? undefined : this.status.state(name, words),
    });
  }

  /** @param {Log.Told | Log.Pushed} message */
  #message(message) {
    if (Array.isArray(message)) this.#pushed(...message);
    else if (message.window) this.#window(...message.window);
    else if (message.found) this.find.found(message.found);
    else if (message.outline) this.outline.tell(message.outline);
    else if (message.picked) this.#picked(message.picked);
    else if (message.hello) this.#hello(message.hello);
    else if (message.complete !== undefined) this.#complete(message.empty);
    else if (message.gap || message.anew) this.#reopen();
  }

  // The first word on every connection.
  /** @param {Log.Hello} hello */
  #hello({ lines, complete, gap, empty }) {
    const { model } = this;
    if (this.hasTail && gap?.join() !== model.gap?.join()) return this.#reopen();
    model.cut(gap);
    const upto = model.position(lines);
    const isAnew = !model.lines.length || upto - model.upto > FAR;
    this.socket?.send(isAnew ? { tail: TAIL } : { after: model.number(model.upto) });
    this.pushed = isAnew ? Math.max(upto - TAIL, 0) : model.upto;
    model.upto = upto;
    this.awaited = null;
    if (!this.hasTail) this.status.seen = upto;
    if (!this.hasTail) this.target.read();
    this.hasTail = true;
    this.find.again();
    this.outline.ask();
    this.view.draw();
    this.status.lines(lines, empty);
    if (complete) this.#complete();
  }

  // Lines were cut out of what is here.
  #reopen() {
    this.socket?.close();
    this.#open();
  }

  /** @param {string} [empty] */
  #complete(empty) {
    this.isComplete = true;
    this.status.lines(this.model.upto, empty);
    this.status.state("complete", "complete");
    this.outline.grew();
  }

  /** @param {number} first @param {Log.Raw[]} raw */
  #pushed(first, raw) {
    const before = this.model.number(this.model.upto);
    const position = this.model.position(first);
    this.pushed = position + raw.length - 1;
    const changed = this.model.push(position, raw, this.isOnly || this.view.isFollowing);
    if (this.isOnly) this.#tellFollowing();
    else if (changed) this.view.changed(changed);
    else this.view.redraw(null);
    this.find.grew(
      raw
        .map(([, , text], index) => ({ number: this.model.number(position + index), text }))
        .filter((line) => line.number > before),
    );
    this.outline.grew();
    if (this.view.isFollowing) this.status.seen = this.model.upto;
    this.#tellFollowing();
    this.status.lines(this.model.upto);
  }

  /** @param {number} first @param {Log.Raw[]} raw */
  #window(first, raw) {
    this.awaited = null;
    const anchor = this.view.anchor();
    this.model.window(this.model.position(first), raw);
    if (this.isOnly) return;
    this.#shown(anchor);
  }

  // Some were asked for by the view, some to be copied.
  /** @param {Log.Picked[]} raw */
  #picked(raw) {
    if (this.target.copied(raw) || !this.isOnly) return;
    this.awaited = null;
    const anchor = this.view.anchor();
    this.hits.picked(raw);
    this.#shown(anchor);
  }

  /** @param {Anchor | null} anchor */
  #shown(anchor) {
    this.view.redraw(anchor);
    if (this.goal && this.view.show(this.goal.number, this.goal.target)) this.goal = null;
    if (this.view.isFollowing) this.view.draw();
  }

  // What was found has changed, or whether only that is shown.
  #showHits() {
    const { isOnly } = this.find;
    const here = this.view.anchor()?.number;
    if (isOnly) this.hits.grow(this.find.numbers);
    if (isOnly !== this.isOnly) {
      this.isOnly = isOnly;
      this.view.model = isOnly ? this.hits : this.model;
      this.view.isFollowing = !isOnly;
      this.awaited = null;
      if (isOnly) this.scroller.scrollTop = 0;
      this.view.redraw(null);
      if (!isOnly && here) this.#goTo(here, null);
    } else if (isOnly) this.view.draw();
    this.#tellFollowing();
    this.status.lines(this.model.upto);
  }

  // Asks for lines that are not here, one window at a time.
  /** @param {Log.Where} where */
  #want(where) {
    if (this.awaited && performance.now() - this.awaited < ANSWER_WITHIN) return;
    if (where.from && this.view.isFollowing) {
      // The end is on its way already, and without it is asked for at once: nobody who follows
      // walks there a window at a time.
      if (!this.isOnly && this.pushed < this.model.upto) return;
      where = { before: this.view.model.upto + 1 };
    }
    const wish = this.#wish(where.near ? { from: Math.max(where.near - WINDOW / 2, 1) } : where);
    if (wish && this.socket?.send(wish)) this.awaited = performance.now();
  }

  // As line numbers; null where nothing was found there.
  /** @param {Log.Where} where @returns {Log.Wish | null} */
  #wish({ from, before }) {
    if (this.isOnly) {
      const start = from ?? Math.max((before ?? 1) - WINDOW, 1);
      const numbers = this.hits.numbers.slice(start - 1, Math.min(start - 1 + WINDOW, (before ?? Infinity) - 1));
      return numbers.length ? { pick: numbers } : null;
    }
    /** @type {Log.Window} */
    const wish = { limit: WINDOW };
    if (from) wish.from = this.model.number(from);
    if (before) wish.before = this.model.number(before);
    return wish;
  }

  /** @param {number} number @param {[number, number] | null} [target] */
  #goTo(number, target = [number, number]) {
    this.goal = null;
    this.target.follow(target);
    const isHit = this.isOnly && this.find.has(number);
    if (this.isOnly && !isHit) this.find.showAll();
    if (this.view.show(number, target)) return;
    this.goal = { number, target };
    this.view.follow(false);
    this.awaited = null;
    this.#want({ near: this.view.model.position(number) });
  }

  #toStart() {
    if (!this.isOnly) return this.#goTo(1, null);
    this.scroller.scrollTop = 0;
  }

  #toEnd() {
    const { model } = this.view;
    if (!model.hasEnd) {
      this.awaited = null;
      this.#want({ before: model.upto + 1 });
    }
    this.status.seen = this.model.upto;
    this.view.follow(true);
    this.view.draw();
    this.#tellFollowing();
  }

  /** @param {string} name @param {boolean} yes */
  #set(name, yes) {
    this.root.querySelector(`[data-action=${name}]`)?.setAttribute("aria-pressed", String(yes));
    if (name === "wrap") this.view.wrap(yes);
    else if (name === "harmless") this.outline.grey(yes);
    else if (name === "times") {
      this.root.classList.toggle("has-times", yes);
      this.view.relayout();
    }
    remember(`log.${name}`, yes ? "yes" : "no");
  }

  // "every-line" or "fold": how many rows a line gets.
  /** @param {"every-line" | "fold"} name @param {boolean} yes @param {number} line */
  #roll(name, yes, line) {
    const anchor = this.view.anchor();
    find(this.root, `[data-action=${name}].log-toggle`, HTMLElement).setAttribute("aria-pressed", String(yes));
    if (name === "fold") this.model.foldPeriodic(yes);
    else this.model.showEveryLine(yes);
    if (this.isOnly) return;
    this.view.redraw(anchor);
    if (line) this.view.show(line);
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const link = around(event, ".log-number", HTMLElement);
    if (link) return this.#mark(event, Number(link.dataset.number));
    const button = around(event, "[data-action]", HTMLElement);
    if (!button || !this.root.contains(button)) return;
    const isPressed = button.getAttribute("aria-pressed") === "true";
    const line = Number(button.dataset.line);
    switch (button.dataset.action) {
      case "find":
        return this.find.isOpen ? this.find.close() : this.find.open();
      case "next":
        return this.find.step(1);
      case "previous":
        return this.find.step(-1);
      case "wrap":
      case "times":
      case "harmless":
        return this.#set(button.dataset.action, !isPressed);
      case "every-line":
        return this.#roll("every-line", line ? true : !isPressed, line);
      case "fold":
        return this.#roll("fold", line ? false : !isPressed, line);
      case "start":
        return this.#toStart();
      case "end":
      case "follow":
        return this.#toEnd();
      case "copy":
        return this.target.copy(this.root.classList.contains("has-times"));
      case "copy-link":
        return this.target.copyLink();
      case "newer":
        return this.newer.follow();
      case "whole":
        return this.#showWhole(line);
      case "why":
        return this.#explain(line, button);
    }
  }

  /** @param {MouseEvent} event @param {number} number */
  #mark(event, number) {
    if (event.ctrlKey || event.metaKey || event.button) return;
    event.preventDefault();
    if (this.isOnly) this.find.showAll();
    this.target.mark(number, event.shiftKey);
  }

  /** @param {number} number */
  #showWhole(number) {
    const row = this.view.model.row(number);
    if (!row) return;
    row.isWhole = true;
    this.view.changed([row]);
  }

  /** @param {number} number @param {HTMLElement} button */
  #explain(number, button) {
    const row = this.view.model.row(number);
    if (row) explain(row, button);
    this.view.draw();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.altKey || event.metaKey) return;
    const key = event.ctrlKey ? `ctrl-${event.key}` : event.key;
    if (key === "ctrl-f") this.find.open();
    else if (event.ctrlKey || around(event, "input, select, textarea", HTMLElement)) return;
    else if (key === "/") this.find.open();
    else if (key === ":") this.find.open("line");
    else if (key === "Escape" && this.find.isOpen) this.find.close();
    else if (key === "n") this.find.step(1);
    else if (key === "N") this.find.step(-1);
    else if (key === "g" || key === "Home") this.#toStart();
    else if (key === "G" || key === "End") this.#toEnd();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #tellFollowing = () => this.status.following(this.view.isFollowing, this.model.upto);
}

// What a person has chosen of how logs look, in this browser.
// Storage may be switched off in this browser: choices then last for one page.
/** @param {string} key */
function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} value */
function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // See above.
  }
}

// <run-log>: a run's log, live.
class RunLog extends HTMLElement {
  static observedAttributes = ["data-run"];

  /** @type {LogReader | null} */
  reader = null;

  connectedCallback() {
    this.reader = new LogReader(this);
    this.reader.newer.look(); // one may have begun while the page was on its way
  }

  disconnectedCallback() {
    this.reader?.close();
  }

  /** @param {string} _name @param {string | null} before @param {string | null} now */
  attributeChangedCallback(_name, before, now) {
    if (before !== null && before !== now) this.reader?.renew();
  }
}

customElements.define("run-log", RunLog);

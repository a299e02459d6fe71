// @ts-check
// A run's log as it is read: what is loaded, shown, found, followed.

import "../page/menu.js";
import { chosen, remember, remembered, tick } from "./choices.js";
import { LogFind } from "./find.js";
import { LogFull } from "./full.js";
import { LogKeys, actionOf } from "./keys.js";
import { LogLevels } from "./levels.js";
import { LogHits, LogModel } from "./model.js";
import { LogNewer, LogStatus } from "./status.js";
import { LogOutline } from "./outline.js";
import { explain } from "./row.js";
import { LogSocket } from "./socket.js";
import { LogTarget } from "./target.js";
import { plain } from "./terminal.js";
import { LogView } from "./view.js";
import { around, find } from "../page/parts.js";

/** @import { LogDownload } from "./download.js" */
/** @import { Choice } from "./choices.js" */
/** @import { State } from "./socket.js" */
/** @import { Anchor } from "./view.js" */

const TAIL = 2000;
const WINDOW = 1000;
// Farther behind than this (a tab that slept), the end is worth more than the way there.
const FAR = 5000;
const ANSWER_WITHIN = 10_000;
class LogReader {
  /** @type {LogSocket | undefined} */
  socket;
  /** @type {LogDownload | undefined} */
  download;
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
    this.levels = new LogLevels(root, {
      changed: () => {
        if (this.find.isActive) this.find.search(false);
        else this.#showHits();
      },
    });
    this.find = new LogFind(find(root, ".log-find", HTMLFormElement), {
      ask: (wish) => this.socket?.send(wish),
      show: (number) => this.#goTo(number),
      range: () => this.levels.range,
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
      text: (number) => plain(this.model.line(number)?.text ?? ""),
      bad: (errors, warnings, evidence) => this.levels.tell(errors, warnings, evidence),
      changed: () => this.view.redraw(),
    });
    this.full = new LogFull(root, (yes) => tick(root, "full", yes));
    this.view.note = (number) => this.outline.note(number);
    this.target = new LogTarget(root, {
      ask: (wish) => this.socket?.send(wish),
      line: (number) => this.model.line(number),
      show: (first, last) => this.#goTo(first, [first, last]),
    });
    this.newer = new LogNewer(root, () => !this.view.isFollowing || this.isOnly || this.target.lines !== null);
    root.addEventListener("click", this);
    this.keys = new LogKeys(root, (event) => this.#key(event));
    for (const [name, yes] of chosen(root)) this.#set(name, yes);
    this.#open();
  }

  close() {
    this.socket?.close();
    this.view.close();
    this.target.close();
    this.outline.close();
    this.newer.close();
    this.full.close();
    this.root.removeEventListener("click", this);
    this.keys.close();
  }

  // Another run has come: its log in place of this one.
  renew() {
    const link = find(this.root, ".log-download", HTMLAnchorElement);
    link.href = link.pathname.replace(/\/runs\/\d+\//, `/runs/${this.root.dataset.run}/`);
    this.scroller.setAttribute("aria-label", `Log of run ${this.root.dataset.run}`);
    this.socket?.close();
    this.target.forget();
    this.levels.forget();
    this.status.lines(1, null); // until its first word tells
    this.#open();
  }

  /** @param {Event} event */
  handleEvent(event) {
    if (event instanceof MouseEvent) this.#click(event);
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
      state: (name, words) => (this.isComplete && name === "open" ? undefined : this.#tell(name, words)),
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
    this.#tellLines(empty);
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
    this.#tellLines(empty);
    this.#tell("complete", "complete");
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
    this.#tellLines();
  }

  /** @param {number} first @param {Log.Raw[]} raw */
  #window(first, raw) {
    this.awaited = null;
    const anchor = this.view.anchor();
    this.model.window(this.model.position(first), raw);
    if (this.isOnly) return;
    this.#shown(anchor);
  }

  // Some were asked for by the view, some to be copied or saved.
  /** @param {Log.Picked[]} raw */
  #picked(raw) {
    if (this.target.copied(raw) || this.download?.took(raw) || !this.isOnly) return;
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
    const isOnly = this.find.isOnly || this.levels.isActive;
    const here = this.view.anchor()?.number;
    const wasFollowing = this.view.isFollowing;
    if (isOnly) this.hits.grow(this.find.isOnly ? this.find.numbers : this.levels.numbers);
    if (isOnly !== this.isOnly) {
      this.isOnly = isOnly;
      this.view.model = isOnly ? this.hits : this.model;
      this.view.isFollowing = isOnly ? wasFollowing && !this.find.isOnly : !here;
      this.awaited = null;
      if (this.find.isOnly) this.scroller.scrollTop = 0;
      this.view.redraw(null);
      if (here) this.#goNear(here);
    } else if (isOnly) this.view.draw();
    this.#tellFollowing();
    this.#tellLines();
  }

  /** @param {number} number where somebody was before others were shown */
  #goNear(number) {
    if (!this.isOnly) return this.#goTo(number, null);
    if (this.find.isOnly) return;
    const { numbers } = this.hits;
    const nearest = numbers[Math.min(this.hits.position(number), numbers.length) - 1];
    if (nearest) this.#goTo(nearest, null);
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
    if (this.isOnly && !this.hits.has(number)) this.#showAll();
    if (this.view.show(number, target)) return;
    this.goal = { number, target };
    this.view.follow(false);
    this.awaited = null;
    this.#want({ near: this.view.model.position(number) });
  }

  #showAll() {
    this.levels.showAll();
    if (this.isOnly) this.find.showAll();
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

  /** @param {Choice} name @param {boolean} yes */
  #set(name, yes) {
    if (name === "full") return this.full.set(yes);
    if (name === "every-line" || name === "fold") return this.#roll(name, yes);
    tick(this.root, name, yes);
    if (name === "wrap") this.view.wrap(yes);
    else if (name === "harmless") this.outline.grey(yes);
    else {
      this.root.classList.toggle(`has-${name}`, yes);
      this.view.relayout();
    }
  }

  /** @param {Choice} name */
  #turn(name) {
    const item = find(this.root, `[role=menuitemcheckbox][data-action=${name}]`, HTMLElement);
    const yes = item.ariaChecked !== "true";
    this.#set(name, yes);
    if (name !== "full" && name !== "every-line") remember(name, yes);
  }

  // How many rows a line gets.
  /** @param {"every-line" | "fold"} name @param {boolean} yes @param {number} [line] */
  #roll(name, yes, line) {
    const anchor = this.view.anchor();
    tick(this.root, name, yes);
    if (name === "fold") this.model.foldPeriodic(yes);
    else this.model.showEveryLine(yes);
    if (this.isOnly) return;
    this.view.redraw(anchor);
    if (line) this.view.show(line);
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const isPlain = !event.ctrlKey && !event.metaKey && !event.button;
    const link = around(event, ".log-number, .log-download", HTMLElement);
    if (link && isPlain) {
      event.preventDefault();
      return link.dataset.number ? this.#mark(Number(link.dataset.number), event.shiftKey) : void this.#askForFile();
    }
    const button = around(event, "[data-action]", HTMLElement);
    if (button) this.#act(button.dataset.action ?? "", Number(button.dataset.line), button);
  }

  // What a button or a key stands for.
  /** @param {string} action @param {number} [line] @param {HTMLElement} [button] */
  #act(action, line = 0, button = this.root) {
    switch (action) {
      case "find":
      case "leave":
        if (this.find.isOpen) return this.find.close();
        return action === "find" ? this.find.open() : this.full.set(false);
      case "text":
        return this.find.open();
      case "line":
        return this.find.open("line");
      case "next":
        return this.find.step(1);
      case "previous":
        return this.find.step(-1);
      case "errors":
        return this.levels.toggle("error");
      case "wrap":
      case "times":
      case "raw":
      case "harmless":
      case "full":
        return this.#turn(action);
      case "every-line":
      case "fold":
        return line ? this.#roll(action, action === "every-line", line) : this.#turn(action);
      case "start":
        return this.#toStart();
      case "follow":
      case "end":
        return action === "follow" && this.view.isFollowing && !this.isComplete ? this.view.follow(false) : this.#toEnd();
      case "copy":
      case "print":
        return this.target.copy(remembered("times") === "yes", action);
      case "copy-view":
        return void this.target.copyShown(this.view.visible().map((row) => row.line));
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

  async #askForFile() {
    const { LogDownload } = await import("./download.js");
    this.download ??= new LogDownload(this.root, {
      ask: (wish) => this.socket?.send(wish),
      shown: () => (this.isOnly ? this.hits.numbers : null),
    });
    this.download.ask();
  }

  /** @param {number} number @param {boolean} isMore */
  #mark(number, isMore) {
    if (this.isOnly) this.#showAll();
    this.target.mark(number, isMore);
  }

  /** @param {number} number */
  #showWhole(number) {
    const row = this.view.model.row(number);
    if (!row) return;
    row.line.isWhole = true; // the line's: rows are made anew
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
    const action = actionOf(event);
    if (!action || (action === "leave" && !this.find.isOpen && !this.full.isOn)) return;
    event.preventDefault();
    event.stopPropagation();
    this.#act(action);
  }

  /** @param {State} name @param {string} words */
  #tell(name, words) {
    this.status.state(name, words);
    this.#tellFollowing();
  }

  /** @param {string} [empty] */
  #tellLines(empty) {
    this.status.lines(this.model.upto, this.isOnly ? this.hits.upto : null, empty);
  }

  #tellFollowing = () => this.status.following(this.view.isFollowing, this.model.upto);
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

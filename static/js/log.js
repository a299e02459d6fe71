// <run-log>: a run's log, live. The template holds the toolbar; this makes it work.

import { LogFind } from "./log-find.js";
import { LogHits } from "./log-hits.js";
import { LogModel } from "./log-model.js";
import { LogOutline } from "./log-outline.js";
import { explain } from "./log-row.js";
import { LogSocket } from "./log-socket.js";
import { LogTarget } from "./log-target.js";
import { LogView } from "./log-view.js";

const TAIL = 2000;
const WINDOW = 1000;
// Farther behind than this (a tab that slept), the end is worth more than the way there.
const FAR = 5000;
const ANSWER_WITHIN = 10_000;

// Storage may be switched off in this browser: choices then last for one page.
function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // See above.
  }
}

class RunLog extends HTMLElement {
  static observedAttributes = ["data-run"];

  connectedCallback() {
    this.scroller = this.querySelector(".log-scroller");
    this.status = this.querySelector(".log-status");
    this.followButton = this.querySelector("[data-action=follow]");
    this.model = new LogModel();
    this.hits = new LogHits();
    this.view = new LogView(this.scroller, this.model, {
      wants: (where) => this.#want(where),
      followed: () => this.#tellFollowing(),
    });
    this.find = new LogFind(this.querySelector(".log-find"), {
      ask: (wish) => this.socket.send(wish),
      show: (number) => this.#goTo(number),
      here: () => (this.isOnly ? 0 : (this.view.anchor()?.number ?? this.model.number(this.model.last))),
      mark: (mark) => {
        this.view.mark = mark;
        this.view.redraw();
      },
      changed: () => this.#showHits(),
      closed: () => this.scroller.focus(),
    });
    this.outline = new LogOutline(this, {
      ask: (wish) => this.socket.send(wish),
      show: (number) => this.#goTo(number),
      share: (number) => this.model.position(number) / Math.max(this.model.upto, 1),
      changed: () => this.view.redraw(),
    });
    this.view.note = (number) => this.outline.note(number);
    this.target = new LogTarget(this, {
      ask: (wish) => this.socket.send(wish),
      line: (number) => this.model.line(number),
      show: (first, last) => this.#goTo(first, [first, last]),
    });
    this.addEventListener("click", this);
    this.addEventListener("keydown", this);
    this.#set("wrap", remembered("log.wrap") !== "no");
    this.#set("times", remembered("log.times") === "yes");
    this.#set("harmless", remembered("log.harmless") !== "no");
    this.#open();
  }

  disconnectedCallback() {
    this.socket?.close();
    this.view.close();
    this.target.close();
    this.outline.close();
    this.removeEventListener("click", this);
    this.removeEventListener("keydown", this);
  }

  attributeChangedCallback(name, before, now) {
    if (before === null || before === now || !this.model) return;
    for (const link of this.querySelectorAll(".log-download")) {
      link.href = link.getAttribute("href").replace(/\/runs\/\d+\//, `/runs/${now}/`);
    }
    this.socket?.close();
    this.target.forget();
    this.#open();
  }

  handleEvent(event) {
    if (event.type === "keydown") this.#key(event);
    else this.#click(event);
  }

  #open() {
    this.model.reset();
    this.awaited = null;
    this.goal = null;
    this.seen = 0;
    this.pushed = 0; // up to where this connection has pushed lines, or was told to leave them out
    this.hasTail = false;
    this.isComplete = false;
    this.isOnly = false;
    this.outline.forget();
    this.view.model = this.model;
    this.view.isFollowing = true;
    this.view.target = null;
    this.view.address = `/runs/${this.dataset.run}/`;
    this.view.redraw(null);
    this.#tellFollowing();
    this.socket = new LogSocket(this.dataset.run, {
      message: (message) => this.#message(message),
      state: (name, words) => this.#tellState(name, words),
    });
  }

  #message(message) {
    if (Array.isArray(message)) this.#pushed(...message);
    else if (message.window) this.#window(...message.window);
    else if (message.found) this.find.found(message.found);
    else if (message.outline) this.outline.tell(message.outline);
    else if (message.picked) this.#picked(message.picked);
    else if (message.hello) this.#hello(message.hello);
    else if (message.complete) this.#complete();
    else if (message.gap || message.anew) this.#reopen();
  }

  // The first word on every connection.
  #hello({ lines, complete, gap }) {
    const { model } = this;
    if (this.hasTail && gap?.join() !== model.gap?.join()) return this.#reopen();
    model.cut(gap);
    const upto = model.position(lines);
    const isAnew = !model.lines.length || upto - model.upto > FAR;
    this.socket.send(isAnew ? { tail: TAIL } : { after: model.number(model.upto) });
    this.pushed = isAnew ? Math.max(upto - TAIL, 0) : model.upto;
    model.upto = upto;
    this.awaited = null;
    if (!this.hasTail) {
      this.seen = upto;
      this.target.read();
    }
    this.hasTail = true;
    this.find.again();
    this.outline.ask();
    this.view.draw();
    this.#tellEmpty(lines);
    if (complete) this.#complete();
  }

  // Lines were cut out of what is here.
  #reopen() {
    this.socket.close();
    this.#open();
  }

  #complete() {
    this.isComplete = true;
    this.#tellState("complete", "complete");
    this.outline.grew();
  }

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
    if (this.view.isFollowing) this.seen = this.model.upto;
    this.#tellFollowing();
    this.#tellEmpty(this.model.upto);
  }

  #window(first, raw) {
    this.awaited = null;
    const anchor = this.view.anchor();
    this.model.window(this.model.position(first), raw);
    if (this.isOnly) return;
    this.#shown(anchor);
  }

  // Some were asked for by the view, some to be copied.
  #picked(raw) {
    if (this.target.copied(raw) || !this.isOnly) return;
    this.awaited = null;
    const anchor = this.view.anchor();
    this.hits.picked(raw);
    this.#shown(anchor);
  }

  #shown(anchor) {
    this.view.redraw(anchor);
    if (this.goal && this.view.show(this.goal, this.goalTarget)) this.goal = null;
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
    this.#tellEmpty(this.model.upto);
  }

  // Asks for lines that are not here, one window at a time.
  #want(where) {
    if (this.awaited && performance.now() - this.awaited < ANSWER_WITHIN) return;
    if (where.from && this.view.isFollowing) {
      // The end is on its way already, and without it is asked for at once: nobody who follows
      // walks there a window at a time.
      if (!this.isOnly && this.pushed < this.model.upto) return;
      where = { before: this.view.model.upto + 1 };
    }
    let wish = where.near
      ? { from: Math.max(where.near - WINDOW / 2, 1), limit: WINDOW }
      : { ...where, limit: WINDOW };
    if (this.isOnly) {
      const from = wish.from ?? Math.max(wish.before - WINDOW, 1);
      const numbers = this.hits.numbers.slice(from - 1, Math.min(from - 1 + WINDOW, (wish.before ?? Infinity) - 1));
      if (!numbers.length) return;
      wish = { pick: numbers };
    } else {
      for (const key of ["from", "before"]) if (wish[key]) wish[key] = this.model.number(wish[key]);
    }
    if (this.socket.send(wish)) this.awaited = performance.now();
  }

  #goTo(number, target = [number, number]) {
    this.goal = null;
    this.target.follow(target);
    const isHit = this.isOnly && this.find.has(number);
    if (this.isOnly && !isHit) this.find.showAll();
    if (this.view.show(number, target)) return;
    this.goal = number;
    this.goalTarget = target;
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
    this.seen = this.model.upto;
    this.view.follow(true);
    this.view.draw();
    this.#tellFollowing();
  }

  #set(name, yes) {
    this.querySelector(`[data-action=${name}]`)?.setAttribute("aria-pressed", String(yes));
    if (name === "wrap") this.view.wrap(yes);
    else if (name === "harmless") this.outline.grey(yes);
    else if (name === "times") {
      this.classList.toggle("has-times", yes);
      this.view.relayout();
    }
    remember(`log.${name}`, yes ? "yes" : "no");
  }

  // "every-line" or "fold": how many rows a line gets.
  #roll(name, yes, line) {
    const anchor = this.view.anchor();
    this.querySelector(`[data-action=${name}].log-toggle`).setAttribute("aria-pressed", yes);
    if (name === "fold") this.model.foldPeriodic(yes);
    else this.model.showEveryLine(yes);
    if (this.isOnly) return;
    this.view.redraw(anchor);
    if (line) this.view.show(line);
  }

  #click(event) {
    const link = event.target.closest(".log-number");
    if (link) return this.#numberClicked(event, Number(link.dataset.number));
    const button = event.target.closest("[data-action]");
    if (!button || !this.contains(button)) return;
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
        return this.target.copy(this.classList.contains("has-times"));
      case "copy-link":
        return this.target.copyLink();
      case "whole":
        return this.#showWhole(line);
      case "why":
        return this.#explain(line, button);
    }
  }

  #numberClicked(event, number) {
    if (event.ctrlKey || event.metaKey || event.button) return;
    event.preventDefault();
    if (this.isOnly) this.find.showAll();
    this.target.mark(number, event.shiftKey);
  }

  #showWhole(number) {
    const row = this.view.model.row(number);
    if (!row) return;
    row.isWhole = true;
    this.view.changed([row]);
  }

  #explain(number, button) {
    explain(this.view.model.row(number), button);
    this.view.draw();
  }

  #key(event) {
    if (event.altKey || event.metaKey) return;
    const key = event.ctrlKey ? `ctrl-${event.key}` : event.key;
    if (key === "ctrl-f") this.find.open();
    else if (event.ctrlKey || event.target.closest("input, select, textarea")) return;
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

  #tellState(name, words) {
    if (name === "open" && this.isComplete) return;
    this.status.dataset.state = name;
    this.status.textContent = words;
  }

  #tellFollowing() {
    const { isFollowing } = this.view;
    const news = this.model.upto - this.seen;
    if (isFollowing) this.seen = this.model.upto;
    this.followButton.hidden = isFollowing || this.model.upto === 0;
    const words = news > 0 && !isFollowing ? `, ${news.toLocaleString()} new lines` : "";
    this.followButton.textContent = `▼ follow${words}`;
  }

  #tellEmpty(lines) {
    this.querySelector(".log-empty").hidden = lines > 0;
  }
}

customElements.define("run-log", RunLog);

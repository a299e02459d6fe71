// @ts-check
// What is said of a log as a whole: how its socket does, what has come unseen, that there is nothing or a newer one.

import { find } from "../page/parts.js";

/** @import { State } from "./socket.js" */

export class LogStatus {
  seen = 0; // up to where the reader has followed
  isComplete = false;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.said = find(root, ".log-status", HTMLElement);
    this.size = find(root, ".log-size", HTMLElement);
    this.follow = find(root, "[data-action=follow]", HTMLElement);
    this.news = find(root, ".log-follow", HTMLElement);
    this.empty = find(root, ".log-empty", HTMLElement);
  }

  /** @param {State} name @param {string} words */
  state(name, words) {
    this.said.dataset.state = name;
    this.said.textContent = words;
    this.isComplete = name === "complete";
  }

  /** @param {boolean} isFollowing @param {number} upto */
  following(isFollowing, upto) {
    if (isFollowing) this.seen = upto;
    const count = upto - this.seen;
    this.news.hidden = isFollowing || count <= 0;
    this.news.textContent = `▼ ${count.toLocaleString()} new ${count === 1 ? "line" : "lines"}`;
    // Of what has ended, the end is all there is to go to.
    find(this.follow, "span", HTMLElement).textContent = this.isComplete ? "To end" : "Follow";
    if (this.isComplete) this.follow.removeAttribute("aria-pressed");
    else this.follow.setAttribute("aria-pressed", String(isFollowing));
  }

  /** @param {number} count @param {number | null} shown null: all @param {string} [words] what stands there while it is none */
  lines(count, shown, words) {
    if (words) this.empty.textContent = words;
    this.empty.hidden = count > 0;
    const all = `${count.toLocaleString()} ${count === 1 ? "line" : "lines"}`;
    this.size.textContent = !count ? "" : shown === null ? all : `${shown.toLocaleString()} of ${all}`;
  }
}

// The log of the server's latest run: a new one takes the place of the old one, unless somebody is
// reading at a place of that. Then a line says that it has begun.
export class LogNewer {
  /** The run that has begun, as long as the old one is shown. */
  run = "";

  /**
   * @param {HTMLElement} root
   * @param {() => boolean} isReading whether somebody has gone to a place of the log
   */
  constructor(root, isReading) {
    this.root = root;
    this.isReading = isReading;
    this.said = find(root, ".log-newer", HTMLElement);
    this.onRuns = () => this.look();
    document.body.addEventListener("runs", this.onRuns);
  }

  close() {
    document.body.removeEventListener("runs", this.onRuns);
  }

  follow() {
    const { run } = this;
    this.run = "";
    this.said.hidden = true;
    if (run) this.root.dataset.run = run;
  }

  look() {
    const { follows, run: shown } = this.root.dataset;
    const latest = follows ? document.getElementById(follows)?.dataset.run : "";
    if (!latest || latest === shown) return;
    this.run = latest;
    if (!this.isReading()) return this.follow();
    find(this.said, "span", HTMLElement).textContent = `Run ${latest} has begun.`;
    this.said.hidden = false;
  }
}

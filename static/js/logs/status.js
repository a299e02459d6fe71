// @ts-check
// What is said of a log as a whole: how its socket does, what has come unseen, that there is nothing or a newer one.

import { find } from "../page/parts.js";

/** @import { State } from "./socket.js" */

export class LogStatus {
  seen = 0; // up to where the reader has followed

  /** @param {HTMLElement} root */
  constructor(root) {
    this.said = find(root, ".log-status", HTMLElement);
    this.follow = find(root, "[data-action=follow]", HTMLElement);
    this.empty = find(root, ".log-empty", HTMLElement);
  }

  /** @param {State} name @param {string} words */
  state(name, words) {
    this.said.dataset.state = name;
    this.said.textContent = words;
  }

  /** @param {boolean} isFollowing @param {number} upto */
  following(isFollowing, upto) {
    const news = upto - this.seen;
    if (isFollowing) this.seen = upto;
    this.follow.hidden = isFollowing || upto === 0;
    const words = news > 0 && !isFollowing ? `, ${news.toLocaleString()} new lines` : "";
    this.follow.textContent = `▼ follow${words}`;
  }

  /** @param {number} count @param {string} [words] what stands there while it is none */
  lines(count, words) {
    if (words) this.empty.textContent = words;
    this.empty.hidden = count > 0;
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

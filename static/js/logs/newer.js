// @ts-check
// The log of the server's latest run: a new one takes the place of the old one, unless somebody is
// reading at a place of that. Then a line says that it has begun.

import { find } from "../page/parts.js";

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

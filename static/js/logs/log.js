// @ts-check
// <run-log>: a run's log, live.

import { LogReader } from "./reader.js";

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

// @ts-check
// What is said of a log as a whole: how its socket does, what has come unseen, that there is nothing.

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

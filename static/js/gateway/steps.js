// @ts-check
// The steps of a test as rows, each shown while it is asked. Texts go in as texts, never as markup.

import { element } from "../page/dom.js";

const SHOWN = 120; // characters of an answer

const WORDS = { asking: "asking", works: "works", failed: "failed", cancelled: "cancelled" };

/** @param {number} ms */
export const milliseconds = (ms) => (ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

export class Step {
  /** @param {HTMLElement} list @param {string} what */
  constructor(list, what) {
    this.mark = element("span", "step-mark");
    this.figures = element("span", "step-figures");
    this.below = element("div", "step-below");
    const head = element("p", "step-head", this.mark, element("code", "", what), this.figures);
    this.row = element("li", "", head, this.below);
    this.#is("asking");
    list.append(this.row);
  }

  /** @param {keyof typeof WORDS} state */
  #is(state) {
    this.row.dataset.state = state;
    this.mark.textContent = WORDS[state];
  }

  /** @param {string} text */
  waits(text) {
    this.figures.textContent = text;
  }

  /** @param {number} status @param {string[]} figures @param {string} [said] */
  works(status, figures, said = "") {
    this.#is("works");
    this.figures.textContent = [status, ...figures].join(" · ");
    if (said) this.below.replaceChildren(element("p", "step-said", said));
  }

  /** @param {Gateway.Refusal} refused @param {string} what @param {HTMLElement[]} links */
  fails({ status, message, heard }, what, links) {
    this.#is("failed");
    this.figures.textContent = String(status ?? "no answer");
    const said = heard && shown(heard);
    this.below.replaceChildren(
      ...(said ? [element("p", "step-said", said)] : []),
      element("p", "step-trouble", message),
      element("p", "step-advice", what, ...links.flatMap((link) => [" ", link])),
    );
  }

  cancelled() {
    this.#is("cancelled");
    this.figures.textContent = "";
  }
}

// What an answer begins with, or what there was in place of words.
/** @param {Gateway.Words} heard */
export function shown({ words, thoughts, calls, finish }) {
  const text = words.trim() || thoughts.trim();
  if (!text) return calls ? `It calls ${calls}.` : finish ? `No words (it ended with “${finish}”).` : "";
  const begin = text.replace(/\s+/g, " ");
  const cut = begin.length > SHOWN ? `${begin.slice(0, SHOWN)}…` : begin;
  return `${words.trim() ? "" : "It thinks: "}“${cut}”`;
}

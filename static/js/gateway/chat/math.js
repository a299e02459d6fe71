// @ts-check
// Formulas of an answer as MathML, which browsers draw themselves: no font and no style of KaTeX's.

import katex from "../../page/katex.js";
import DOMPurify from "../../page/purify.js";

const MOST = 200; // formulas that are remembered: the end of an answer is drawn anew with each token

// An instance of its own: that of the text takes no MathML.
const purify = DOMPurify(window);
/** @type {Map<string, DocumentFragment | null>} */
const made = new Map();

// null for what is no formula.
/** @param {string} tex @param {boolean} isBlock */
export function formula(tex, isBlock) {
  const key = `${isBlock} ${tex}`;
  if (!made.has(key)) {
    if (made.size >= MOST) made.clear();
    made.set(key, make(tex, isBlock));
  }
  return made.get(key)?.cloneNode(true) ?? null;
}

/** @param {string} tex @param {boolean} isBlock */
function make(tex, isBlock) {
  let markup;
  try {
    markup = katex.renderToString(tex, {
      displayMode: isBlock, output: "mathml", trust: false, strict: "ignore", maxSize: 20, maxExpand: 500,
    });
  } catch (error) {
    if (error instanceof katex.ParseError) return null;
    throw error;
  }
  const found = purify.sanitize(markup, {
    USE_PROFILES: { mathMl: true },
    ADD_TAGS: ["semantics", "annotation"],
    FORBID_ATTR: ["style", "class", "id", "href", "xlink:href"],
    RETURN_DOM_FRAGMENT: true,
  });
  // Its source, which browsers hide: it would be copied with it.
  for (const source of found.querySelectorAll("annotation")) source.remove();
  return found;
}

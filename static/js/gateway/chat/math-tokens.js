// @ts-check
// Where formulas stand in Markdown: $$…$$, \[…\] and \(…\). A single $ is money.

/** @import { TokenizerThis, Tokens } from "marked" */

const LONGEST = 5000; // characters of one
const BLOCKS = [/^ {0,3}\$\$((?:(?!\n[ \t]*\n|\$\$)[\s\S])+)\$\$[ \t]*(?:\n+|$)/, /^ {0,3}\\\[((?:(?!\n[ \t]*\n|\\\])[\s\S])+)\\\][ \t]*(?:\n+|$)/];
const INSIDE = [
  /^\$\$((?:(?!\n[ \t]*\n|\$\$)[\s\S])+)\$\$(?!\d)/,
  /^\\\[((?:(?!\n[ \t]*\n|\\\])[\s\S])+)\\\]/,
  /^\\\(((?:(?!\n[ \t]*\n|\\\))[\s\S])+)\\\)/,
];

/** @param {RegExp[]} patterns @param {string} type */
const reader = (patterns, type) =>
  /** @this {TokenizerThis} @param {string} text @returns {Tokens.Generic | undefined} */
  function read(text) {
    const found = patterns.map((pattern) => pattern.exec(text)).find((each) => each?.[1]?.trim());
    const tex = found?.[1]?.trim() ?? "";
    if (!found || !tex || tex.length > LONGEST) return undefined;
    return { type, raw: found[0], text: tex, isBlock: !found[0].trimStart().startsWith("\\(") };
  };

/** @param {string} text */
const escape = (text) => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);

// What the sanitiser lets through, for formulas to be put in its place.
export const INLINE = "language-tex-inline";
export const BLOCK = "language-tex-block";
/** @param {Tokens.Generic} token */
const render = ({ text, isBlock }) => `<code class="${isBlock ? BLOCK : INLINE}">${escape(text)}</code>`;

export const MATH = {
  block: [reader(BLOCKS, "mathBlock")],
  startBlock: [(/** @type {string} */ text) => after(text.search(/\n {0,3}(?:\$\$|\\\[)/))],
  inline: [reader(INSIDE, "math")],
  startInline: [(/** @type {string} */ text) => text.search(/\$\$|\\[([]/)],
  renderers: { mathBlock: (/** @type {Tokens.Generic} */ token) => `<p>${render(token)}</p>`, math: render },
  childTokens: {},
};

// The line after this place.
/** @param {number} at */
const after = (at) => (at < 0 ? at : at + 1);

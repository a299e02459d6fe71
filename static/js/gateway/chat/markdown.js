// @ts-check
// Turns an engine's Markdown into safe DOM, piece by piece while it streams.

import { Lexer, Parser, Renderer } from "../../../vendor/marked/marked.esm.js";
import { copyButton } from "../../page/clipboard.js";
import { fetchPart, quietly } from "../../page/fetch-part.js";
import { BLOCK, INLINE, MATH } from "./math-tokens.js";
import DOMPurify from "../../page/purify.js";

/** @import { Links, Token, Tokens } from "marked" */

const TAGS = [
  "a", "blockquote", "br", "code", "del", "details", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr",
  "img", "kbd", "li", "mark", "ol", "p", "pre", "s", "strong", "sub", "summary", "sup", "table",
  "tbody", "td", "th", "thead", "tr", "ul",
];
const LANGUAGE = /^language-[\w+#.-]{1,30}$/;
const LINK = /^(?:https?:\/\/|mailto:)/i;
const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,/i;

// An instance of its own: its hooks would else apply to whoever shares the module.
const purify = DOMPurify(window);

purify.addHook("uponSanitizeAttribute", (node, data) => {
  // A class could borrow the page's own looks: only the language of a code block passes.
  if (data.attrName === "class") data.keepAttr = node.nodeName === "CODE" && LANGUAGE.test(data.attrValue);
  if (data.attrName === "href") data.keepAttr = LINK.test(data.attrValue);
  // A picture's address would be fetched with the reader's session.
  if (data.attrName === "src") data.keepAttr = PICTURE.test(data.attrValue);
});

purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A" && node.hasAttribute("href")) {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  if (node.nodeName === "IMG" && !node.hasAttribute("src")) node.remove();
});

/** @param {string} text */
const escape = (text) =>
  text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);

class AnswerRenderer extends Renderer {
  /** @param {Tokens.Image} token */
  image({ href, text }) {
    if (PICTURE.test(href)) return `<img src="${escape(href)}" alt="${escape(text)}">`;
    const label = escape(`picture: ${text || href}`);
    return LINK.test(href) ? `<a href="${escape(href)}">${label}</a>` : label;
  }

  /** @param {Tokens.Checkbox} token */
  checkbox({ checked }) {
    return checked ? "☑ " : "☐ ";
  }
}

const OPTIONS = { gfm: true, breaks: false, async: false, extensions: MATH };

/** @param {Token[]} tokens */
function parse(tokens) {
  const html = new Parser({ ...OPTIONS, renderer: new AnswerRenderer(OPTIONS) }).parse(tokens);
  return purify.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["align", "alt", "class", "colspan", "href", "rowspan", "src", "start", "title"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}

/** @param {Element} code */
async function highlight(code) {
  const language = languageOf(code);
  const text = code.textContent;
  if (!language || text.length > 200_000) return;
  const { highlighted } = await fetchPart("colours code", () => import("./highlight.js"));
  const markup = await fetchPart("colours code", () => highlighted(text, language));
  if (markup) code.innerHTML = markup;
}

/** @param {Element} code */
function languageOf(code) {
  return [...code.classList].find((name) => LANGUAGE.test(name))?.slice("language-".length);
}

/** @param {DocumentFragment} root @param {{complete: boolean}} how */
function dressCode(root, { complete }) {
  // By what stands in it, from right to left, too. Code is always from left to right.
  for (const block of root.children) if (block instanceof HTMLElement && block.nodeName !== "PRE") block.dir = "auto";
  for (const code of root.querySelectorAll("pre > code")) {
    const pre = code.parentElement;
    if (!pre) continue;
    const block = document.createElement("div");
    block.className = "code-block";
    const bar = document.createElement("div");
    bar.className = "code-bar";
    const label = document.createElement("span");
    label.textContent = languageOf(code) ?? "text";
    bar.append(label, copyButton("Copy code", () => code.textContent));
    pre.tabIndex = 0; // so that the keyboard can scroll it
    pre.replaceWith(block);
    block.append(bar, pre);
    if (complete) quietly(highlight(code));
  }
  for (const table of root.querySelectorAll("table")) {
    const frame = document.createElement("div");
    frame.className = "table-frame";
    frame.tabIndex = 0;
    table.replaceWith(frame);
    frame.append(table);
  }
}

/** @type {typeof import("./math.js") | null} */
let math = null;

// Formulas where their source stands: at once, or when what makes them has come.
/** @param {DocumentFragment} root */
function dressMath(root) {
  for (const code of root.querySelectorAll(`:not(pre) > code:is(.${INLINE}, .${BLOCK})`)) {
    const isBlock = code.classList.contains(BLOCK);
    const place = document.createElement("span");
    place.className = isBlock ? "math-block" : "math-inline";
    if (isBlock) place.tabIndex = 0; // so that the keyboard can scroll it
    const source = code.textContent;
    place.textContent = source;
    code.replaceWith(place);
    if (math) putMath(place, source, isBlock);
    else quietly(fetchPart("shows formulas", () => import("./math.js")).then((part) => {
      math = part;
      if (place.isConnected) putMath(place, source, isBlock);
    }));
  }
}

/** @param {HTMLElement} place @param {string} source @param {boolean} isBlock */
function putMath(place, source, isBlock) {
  const shown = math?.formula(source, isBlock);
  if (shown) place.replaceChildren(shown);
  else place.classList.add("math-source");
}

// Shows a growing Markdown text. Blocks that can no longer change are rendered once and
// left alone; only the last one is rendered again when more text comes.
export class MarkdownView {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    element.setAttribute("hx-ignore", "");
    this.shown = "";
    this.settled = 0; // characters whose blocks are final
    /** @type {Links} */
    this.links = {};
    this.tail = document.createElement("div");
    this.reset();
  }

  reset() {
    this.shown = "";
    this.settled = 0;
    this.links = {};
    this.tail = document.createElement("div");
    this.tail.className = "tail";
    this.element.replaceChildren(this.tail);
  }

  /** @param {string} text */
  update(text) {
    if (text === this.shown) return;
    if (!text.startsWith(this.shown)) this.reset();
    this.shown = text;
    const tokens = this.lex(text.slice(this.settled));
    const last = tokens.findLastIndex((token) => token.type !== "space");
    if (last > 0) {
      this.append(tokens.slice(0, last));
      this.settled += tokens.slice(0, last).reduce((sum, token) => sum + token.raw.length, 0);
    }
    this.redrawTail(tokens.slice(Math.max(last, 0)));
  }

  /** @param {string} text */
  finish(text) {
    // References may be defined after they are used: then the whole is rendered once more.
    if (/^ {0,3}\[[^\]]+\]:/m.test(text)) this.reset();
    this.shown = text;
    const tokens = this.lex(text.slice(this.settled));
    this.append(tokens);
    this.settled = text.length;
    this.tail.replaceChildren();
  }

  /** @param {string} text */
  lex(text) {
    const lexer = new Lexer(OPTIONS);
    Object.assign(lexer.tokens.links, this.links);
    const tokens = lexer.lex(text);
    this.links = tokens.links;
    return tokens;
  }

  /** @param {Token[]} tokens */
  append(tokens) {
    const fragment = parse(tokens);
    dressMath(fragment);
    dressCode(fragment, { complete: true });
    this.tail.before(fragment);
  }

  /** @param {Token[]} tokens */
  redrawTail(tokens) {
    const [only] = tokens;
    const open = this.tail.querySelector(":scope > .code-block code");
    if (open && only?.type === "code" && this.tail.childElementCount === 1) {
      open.textContent = only.text; // keeps the block's place, and a selection in its bar
      return;
    }
    const fragment = parse(tokens);
    dressMath(fragment);
    dressCode(fragment, { complete: false });
    this.tail.replaceChildren(fragment);
  }
}

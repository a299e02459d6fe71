// @ts-check
// Text files of a question: read in the browser, and quoted for an engine.

import { size } from "../../page/dom.js";

const LARGEST = 256 * 2 ** 10; // bytes: some 64,000 tokens, more than most contexts have room for
const LANGUAGES = new Map([["md", "markdown"], ["py", "python"], ["js", "javascript"], ["ts", "typescript"], ["sh", "bash"], ["yml", "yaml"], ["log", ""], ["txt", ""]]);

export class TextFileError extends Error {}

// What is stored may be of another release: nothing but a text with a name is one.
/** @param {unknown} file @returns {file is Chat.TextFile} */
const isTextFile = (file) =>
  Boolean(file) && typeof file === "object" && file !== null && "text" in file && typeof file.text === "string" && "name" in file;

/** @param {{files?: unknown}} message @returns {Chat.TextFile[]} */
export const textFiles = (message) => (Array.isArray(message.files) ? message.files.filter(isTextFile) : []);

// Any file is one whose bytes are text: logs and sources have all kinds of endings.
/** @param {File} file @returns {Promise<Chat.TextFile>} */
export async function readText(file) {
  if (file.size > LARGEST) {
    throw new TextFileError(`${file.name} is ${size(file.size)}; a text file may have ${size(LARGEST)}. Add the part that matters.`);
  }
  const text = decode(new Uint8Array(await file.arrayBuffer()));
  if (text === null) throw new TextFileError(`${file.name} is no text, and no picture (PNG, JPEG, WebP or GIF): save it as one of these, then add it again.`);
  if (!text.trim()) throw new TextFileError(`${file.name} is empty.`);
  return { name: file.name, text, bytes: file.size };
}

// null: no text. A log may have bytes that are none in UTF-8, but few.
/** @param {Uint8Array} bytes */
function decode(bytes) {
  const isWide = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
  const text = new TextDecoder(isWide ? (bytes[0] === 0xff ? "utf-16le" : "utf-16be") : "utf-8").decode(bytes);
  const wrong = text.split("\ufffd").length - 1;
  return text.includes("\0") || wrong * 100 > text.length ? null : text;
}

// As a model reads it: its name, and its text in a fence.
/** @param {Chat.TextFile} file */
export function quoted({ name, text }) {
  const plain = name.replace(/\s+/g, " ");
  const ending = /\.(\w{1,10})$/.exec(plain)?.[1]?.toLowerCase() ?? "";
  return `${plain}:\n${fence(text.replace(/\n$/, ""), LANGUAGES.get(ending) ?? ending)}`;
}

// Longer than any fence within it.
/** @param {string} text @param {string} [language] */
export function fence(text, language = "") {
  const longest = Math.max(2, ...[...String(text).matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const ticks = "`".repeat(longest + 1);
  return `${ticks}${language}\n${text}\n${ticks}`;
}

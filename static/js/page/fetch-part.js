// @ts-check
// Parts of a page that come when they are needed: import(), with a word to the person where it fails.

import { complain } from "./toast.js";

/** The person was told of it. */
export class PartError extends Error {}

/** @template T @param {string} what it does @param {() => Promise<T>} load */
export async function fetchPart(what, load) {
  try {
    return await load();
  } catch (error) {
    const words = `The part of this page that ${what} could not be loaded. Check the network, then reload the page.`;
    complain(words);
    throw new PartError(words, { cause: error });
  }
}

// For what a press began: nothing else waits for it.
/** @param {Promise<unknown>} work */
export function quietly(work) {
  work.catch((error) => {
    if (!(error instanceof PartError)) throw error;
  });
}

/** @type {Map<string, Promise<unknown>>} */
const sheets = new Map();

// A sheet that comes with a part of the page, once.
/** @param {string} name below static/css/ */
export function fetchStyle(name) {
  const coming = sheets.get(name) ?? putSheet(name);
  sheets.set(name, coming);
  return coming;
}

/** @param {string} name */
function putSheet(name) {
  const { href } = new URL(`../../css/${name}`, import.meta.url);
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
  return new Promise((resolve, reject) => {
    link.addEventListener("load", resolve);
    link.addEventListener("error", () => reject(new TypeError(`${name} could not be loaded.`)));
    document.head.append(link);
  });
}

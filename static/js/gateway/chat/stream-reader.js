// @ts-check
// Reads the events of an engine's stream.

// Events that inferdash adds to an engine's.
const OURS = new Set(["request", "at", "now", "stopped", "end"]);

// Server-sent events as {name, data}; comments are left out. `heard` gets all but our own as text.
// After `silent` ms without a byte the stream is given up: TypeError, as where a connection is cut.
/**
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream
 * @param {(text: string) => void} [heard]
 * @param {number} [silent]
 * @returns {AsyncGenerator<{name: string, data: string}>}
 */
export async function* events(stream, heard = () => {}, silent = 0) {
  let buffer = "";
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  try {
    while (true) {
      const { value, done } = await within(silent, reader.read());
      if (done) return;
      buffer += value;
      const blocks = buffer.split(/\r?\n\r?\n/);
      buffer = blocks.pop() ?? "";
      for (const block of blocks) {
        /** @type {{name: string, data: string[]}} */
        const event = { name: "message", data: [] };
        for (const line of block.split(/\r?\n/)) {
          if (line.startsWith("data:")) event.data.push(line.slice(5).trimStart());
          else if (line.startsWith("event:")) event.name = line.slice(6).trim();
        }
        if (!OURS.has(event.name)) heard(`${block}\n\n`);
        if (event.data.length) yield { name: event.name, data: event.data.join("\n") };
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // already closed, or aborted
  }
}

/** @template T @param {number} ms @param {Promise<T>} promise @returns {Promise<T>} */
async function within(ms, promise) {
  if (!ms) return promise;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const silence = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new TypeError(`nothing came for ${ms / 1000} s`)), ms);
  });
  try {
    return await Promise.race([promise, /** @type {Promise<never>} */ (silence)]);
  } finally {
    clearTimeout(timer);
  }
}

// An engine that died in the middle of an event leaves half of one: the error that
// follows says what happened.
/** @param {string} data @returns {Streamed} */
export function parsed(data) {
  try {
    return JSON.parse(data) ?? {};
  } catch {
    return {};
  }
}

// Some engines send texts in parts.
/** @param {unknown} said @returns {string} */
export function textOf(said) {
  if (Array.isArray(said)) return said.map((part) => (typeof part?.text === "string" ? part.text : "")).join("");
  return typeof said === "string" ? said : "";
}

// Whether somebody has ended it.
/** @param {unknown} error */
export const isAbort = (error) => error instanceof Error && error.name === "AbortError";

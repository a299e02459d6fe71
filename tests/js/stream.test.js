// Server-sent events, however they are cut on their way.

import assert from "node:assert/strict";
import { test } from "node:test";

import { events, isAbort, parsed, textOf } from "../../static/js/gateway/chat/stream-reader.js";

function streamOf(...pieces) {
  return new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(typeof piece === "string" ? new TextEncoder().encode(piece) : piece);
      controller.close();
    },
  });
}

const euro = new TextEncoder().encode("data: 5 €\n\n");

const STREAMS = [
  ["one event", ["data: a\n\n"], [["message", "a"]]],
  ["two in a piece", ["data: a\n\ndata: b\n\n"], [["message", "a"], ["message", "b"]]],
  ["one in three pieces", ["da", "ta: a\n", "\n"], [["message", "a"]]],
  ["lines that end as on Windows", ["data: a\r\n\r\ndata: b\r\n\r\n"], [["message", "a"], ["message", "b"]]],
  ["a name", ["event: error\ndata: {}\n\n"], [["error", "{}"]]],
  ["two lines of data", ["data: a\ndata: b\n\n"], [["message", "a\nb"]]],
  ["comments alone", [": still here\n\n"], []],
  ["no blank after the colon", ["data:a\n\n"], [["message", "a"]]],
  ["half an event at the end, which is none", ["data: a\n\ndata: b"], [["message", "a"]]],
  ["a character that is cut in two", [euro.slice(0, 9), euro.slice(9)], [["message", "5 €"]]],
  ["nothing", [], []],
];

for (const [what, pieces, wanted] of STREAMS) {
  test(`a stream of ${what}`, async () => {
    const found = [];
    for await (const { name, data } of events(streamOf(...pieces))) found.push([name, data]);
    assert.deepEqual(found, wanted);
  });
}

test("all but our own request is heard as it came", async () => {
  let heard = "";
  const stream = streamOf("event: request\ndata: {}\n\n: comment\n\ndata: a\n\n");
  for await (const _event of events(stream, (text) => (heard += text)));
  assert.equal(heard, ": comment\n\ndata: a\n\n");
});

test("who leaves off ends the stream", async () => {
  let isCancelled = false;
  const stream = new ReadableStream({
    pull: (controller) => controller.enqueue(new TextEncoder().encode("data: a\n\n")),
    cancel: () => void (isCancelled = true),
  });
  for await (const { data } of events(stream)) {
    assert.equal(data, "a");
    break;
  }
  await new Promise(setImmediate);
  assert.equal(isCancelled, true);
});

const PARSED = [['{"a": 1}', { a: 1 }], ["null", {}], ['{"a": ', {}], ["", {}]];
for (const [data, wanted] of PARSED) {
  test(`the data ${JSON.stringify(data)} say ${JSON.stringify(wanted)}`, () => assert.deepEqual(parsed(data), wanted));
}

const TEXTS = [
  ["text", "text"],
  [null, ""],
  [undefined, ""],
  [5, ""],
  [{ text: "no" }, ""],
  [[{ type: "text", text: "in " }, { type: "image" }, null, { text: "parts" }], "in parts"],
];
for (const [said, wanted] of TEXTS) {
  test(`the text of ${JSON.stringify(said)}`, () => assert.equal(textOf(said), wanted));
}

test("an end by somebody is told from a fault", () => {
  assert.equal(isAbort(new DOMException("", "AbortError")), true);
  assert.equal(isAbort(new TypeError("network")), false);
  assert.equal(isAbort("AbortError"), false);
});

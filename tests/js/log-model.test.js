// Which lines of a log a page holds, while they are pushed, asked for and cut out.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LogHits, LogModel } from "../../static/js/logs/model.js";

const AT = "2026-03-30T14:21:44.123456Z";

const raw = (count, text = "line") => Array.from({ length: count }, (_each, at) => [AT, "o", `${text} ${at}`]);

function held(model) {
  return [model.first, model.last, model.upto];
}

test("pushed lines follow each other", () => {
  const model = new LogModel();
  model.push(1, raw(3), true);
  model.push(4, raw(2), true);
  assert.deepEqual(held(model), [1, 5, 5]);
  assert.equal(model.hasEnd, true);
  assert.deepEqual(model.lines.map(({ number }) => number), [1, 2, 3, 4, 5]);
});

test("a line that is pushed twice is there once", () => {
  const model = new LogModel();
  model.push(1, raw(3, "first"), true);
  model.push(2, raw(4, "again"), true);
  assert.deepEqual(model.lines.map(({ text }) => text), ["first 0", "first 1", "first 2", "again 2", "again 3"]);
});

test("who follows goes over a hole to the end", () => {
  const model = new LogModel();
  model.push(1, raw(3), true);
  assert.equal(model.push(10, raw(2), true), null);
  assert.deepEqual(held(model), [10, 11, 11]);
});

test("who reads further up keeps what is there, and is told that there is more", () => {
  const model = new LogModel();
  model.push(1, raw(3), true);
  assert.deepEqual(model.push(10, raw(2), false), new Set());
  assert.deepEqual(held(model), [1, 3, 11]);
  assert.equal(model.hasEnd, false);
});

const WINDOWS = [
  ["that follow", 4, 3, [1, 6, 10]],
  ["that overlap the end", 3, 3, [1, 5, 10]],
  ["that are all here", 2, 1, [1, 3, 10]],
  ["elsewhere, in place of those here", 8, 2, [8, 9, 10]],
  ["none, which changes nothing", 8, 0, [1, 3, 10]],
  ["beyond the end that was known", 4, 9, [1, 12, 12]],
];

for (const [what, first, count, wanted] of WINDOWS) {
  test(`lines are asked for: ${what}`, () => {
    const model = new LogModel();
    model.window(1, raw(3));
    model.upto = 10;
    model.window(first, raw(count));
    assert.deepEqual(held(model), wanted);
  });
}

test("lines before those here go before them", () => {
  const model = new LogModel();
  model.window(5, raw(2, "late"));
  model.window(3, raw(3, "early"));
  assert.deepEqual(model.lines.map(({ text }) => text), ["early 0", "early 1", "late 0", "late 1"]);
});

test("who follows for long loses the beginning, and never the end", () => {
  const model = new LogModel();
  for (let first = 1; first < 42_000; first += 1000) model.push(first, raw(1000), true);
  assert.equal(model.last, 42_000);
  assert.ok(model.lines.length <= 40_000);
  assert.equal(model.lines.length, model.last - model.first + 1);
  assert.equal(model.line(model.last).number, 42_000);
});

test("who walks back for long loses the end, and never where they are", () => {
  const model = new LogModel();
  for (let first = 42_001; first > 1000; first -= 1000) model.window(first, raw(1000));
  assert.equal(model.first, 1001);
  assert.ok(model.lines.length <= 40_000);
  assert.equal(model.line(1001).number, 1001);
});

// Lines 11 to 20 were cut out: 11 stands for all of them.
const CUT = [
  [1, 1], [10, 10], [11, 11], [15, 11], [20, 11], [21, 12], [30, 21],
];

for (const [number, position] of CUT) {
  test(`after a cut, line ${number} stands at ${position}`, () => {
    const model = new LogModel();
    model.cut([11, 20]);
    assert.equal(model.position(number), position);
  });
}

test("after a cut, lines keep their numbers", () => {
  const model = new LogModel();
  model.cut([3, 12]);
  model.push(1, raw(5), true);
  assert.deepEqual(model.lines.map(({ number }) => number), [1, 2, 3, 13, 14]);
  assert.equal(model.line(13).text, "line 3");
  assert.equal(model.line(7).number, 3);
});

test("what was found stands by its place among what was found", () => {
  const hits = new LogHits();
  hits.grow([5, 70, 900]);
  hits.picked([[5, AT, "o", "five"], [900, AT, "e", "nine hundred"]]);
  assert.deepEqual(hits.lines.map(({ number, text }) => [number, text]), [
    [5, "five"], [70, "… this line was removed"], [900, "nine hundred"],
  ]);
  assert.equal(hits.position(6), 2);
  assert.equal(hits.position(901), 4);
  assert.equal(hits.line(900).stream, "e");
});

test("more that is found keeps what is here; another search does not", () => {
  const hits = new LogHits();
  hits.grow([5, 70]);
  hits.picked([[5, AT, "o", "five"], [70, AT, "o", "seventy"]]);
  hits.grow([5, 70, 80]);
  assert.deepEqual(held(hits), [1, 2, 3]);
  hits.grow([6, 70, 80]);
  assert.deepEqual(held(hits), [1, 0, 3]);
});

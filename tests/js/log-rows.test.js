// Which lines share a row: the refreshes of a progress bar, and what engines write again and again.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LogModel } from "../../static/js/logs/model.js";
import { bar, periodic } from "../../static/js/logs/rows.js";

const BARS = [
  ["tqdm with a total", "Loading:  25%|██▌       | 1/4 [00:01<00:03,  1.2s/it]", ["Loading: 4", 25, true]],
  ["vLLM's form of it", "Loading shards: 50% Completed | 2/4 [00:01<00:03, 1s/it]", ["Loading shards: 4", 50, true]],
  ["tqdm without a total", "1200it [00:03, 400it/s]", [null, 1200, false]],
  ["one of a rank", "(Worker_TP0 pid=7) Loading:  25%|██ | 1/4 [00:01<00:03]", ["(Worker_TP0 pid=7) Loading: 4", 25, true]],
  ["one with a count in its title", "Capturing batches (bs=4):   8%|▊ | 1/12 [00:00<00:01]", ["Capturing batches (bs=#): 12", 8, true]],
  ["a sentence with a share", "Memory use is 25% of 4 GiB", null],
  ["a list", "[1, 2, 3]", null],
  ["nothing", "", null],
];

for (const [what, text, wanted] of BARS) {
  test(`a progress bar: ${what}`, () => {
    const found = bar(text);
    if (wanted === null) return assert.equal(found, null);
    const [key, done, hasTotal] = wanted;
    assert.deepEqual([found.done, found.hasTotal], [done, hasTotal]);
    if (key !== null) assert.equal(found.key.trim(), key);
  });
}

test("bars of two ranks differ, and times and colours do not make them", () => {
  const [one, other, later] = [
    "[2026-03-30 14:21:44 TP0] Loading: 25%|█ | 1/4 [00:01<00:03]",
    "[2026-03-30 14:21:44 TP1] Loading: 25%|█ | 1/4 [00:01<00:03]",
    "\x1b[32m[2026-03-30 14:21:49 TP0] Loading: 50%|█ | 2/4 [00:02<00:02]\x1b[0m",
  ].map((text) => bar(text).key);
  assert.notEqual(one, other);
  assert.equal(one, later);
});

const PERIODIC = [
  ["Decode batch, #running-req: 2, token: 40", "Decode batch"],
  ["Prefill batch, #new-seq: 1", "Prefill batch"],
  ["INFO 03-30 14:21:44 [loggers.py:118] Engine 000: Avg prompt throughput: 1.0 tokens/s", "Avg prompt throughput"],
  ["INFO: 127.0.0.1 - GET /health", null],
];

for (const [text, kind] of PERIODIC) {
  test(`what comes again and again: ${text.slice(0, 40)}`, () => {
    const found = periodic(text);
    if (kind === null) assert.equal(found, null);
    else assert.ok(found.key.endsWith(kind), found.key);
  });
}

function rows(texts, settle = () => {}) {
  const model = new LogModel();
  settle(model);
  model.push(1, texts.map((text) => ["2026-03-30T14:21:44Z", "o", text]), true);
  return model.rows.all.map(({ line, refreshes }) => [line.text, refreshes]);
}

const step = (share) => `Loading: ${share}%|█ | ${share}/100 [00:01<00:03]`;

const SHARED = [
  ["the refreshes of a bar", [step(1), step(50), step(100)], [[step(100), 3]]],
  ["a bar, the empty line that ends it, and what follows", [step(1), step(100), "", "ready"], [[step(100), 2], ["ready", 1]]],
  ["a bar that starts over", [step(1), step(100), step(1)], [[step(100), 2], [step(1), 1]]],
  ["two that print the same bar by turns", [step(50), step(40), step(51)], [[step(51), 3]]],
  ["a bar with a line in between", [step(1), "a warning", step(50)], [[step(1), 1], ["a warning", 1], [step(50), 1]]],
  ["lines that are no bars", ["one", "two"], [["one", 1], ["two", 1]]],
];

for (const [what, texts, wanted] of SHARED) {
  test(`rows of ${what}`, () => assert.deepEqual(rows(texts), wanted));
}

test("on demand every line has a row", () => {
  assert.deepEqual(rows([step(1), step(50)], (model) => model.showEveryLine(true)), [[step(1), 1], [step(50), 1]]);
});

test("on demand what comes every few seconds shares a row, until something else comes", () => {
  const texts = ["Decode batch, a", "Prefill batch, b", "Decode batch, c", "an error", "Decode batch, d"];
  assert.deepEqual(rows(texts, (model) => model.foldPeriodic(true)), [
    ["Decode batch, c", 2], ["Prefill batch, b", 1], ["an error", 1], ["Decode batch, d", 1],
  ]);
});

// The layers of a history, the lines of its engines, and spans of time in words.

import assert from "node:assert/strict";
import { test } from "node:test";

import { moment, relative, span } from "../../static/js/page/ago.js";
import { lines } from "../../static/js/memory/history-engines.js";
import { list } from "../../static/js/memory/history-marks.js";
import { cluster, day, heights, layers, opening, seconds, tone, written } from "../../static/js/memory/history-places.js";

const GIB = 2 ** 20; // KiB

test("layers stand in their order, the largest of a kind lowest, and free at the top", () => {
  const found = layers({
    "=free": [4 * GIB], "=unattributed": [GIB], "=server:small": [GIB], "=server:large": [8 * GIB], util: [50], "=cache": [0],
  });
  assert.deepEqual(found.map(({ name, values }) => [name, ...values]), [
    ["large", 8], ["small", 1], ["unattributed", 1], ["free", 4],
  ]);
});

test("what holds nothing is left out, but free is not", () => {
  assert.deepEqual(layers({ "=kernel": [0, null], "=free": [0] }).map(({ kind }) => kind), ["free"]);
});

test("a name may hold colons, and kinds have words of their own", () => {
  assert.deepEqual(layers({ "=process:a:b": [GIB], "=driver_pool": [GIB] }).map(({ name }) => name), ["a:b", "driver’s page pool"]);
});

test("a server keeps its shade, and a kind has none", () => {
  const [one] = layers({ "=server:x": [GIB] });
  assert.equal(one.tone, tone("=server:x"));
  assert.equal(layers({ "=kernel": [GIB] })[0].tone, 0);
});

test("heights are what a layer and those below it hold; silence stays silence", () => {
  const stack = layers({ "=server:x": [GIB, null, GIB], "=free": [2 * GIB, 2 * GIB, null] });
  assert.deepEqual(heights(stack), [[1, null, 1], [3, 2, null]]);
});

const one = { x: { running: [1, null], queued: [0, 2] } };
const two = { ...one, y: { running: [3, 3], queued: [null, null] } };

test("of one server a chart has all lines, of several one each", () => {
  assert.deepEqual(lines("requests", { servers: one }).map(({ words }) => words), ["running", "queued"]);
  assert.deepEqual(lines("requests", { servers: two }).map(({ words }) => words), ["x", "y"]);
});

test("values are in the unit of their chart, and lines without any are left out", () => {
  assert.deepEqual(lines("kv", { servers: { x: { kv: [0.5, null] }, y: { kv: [null] }, z: {} } }).map(({ values }) => values), [[50, null]]);
});

const AGO = [[0, "just now"], [-4, "just now"], [5, "5 s ago"], [59.9, "59 s ago"], [60, "1 min ago"], [7199, "1 h ago"], [86400, "9 Nov 2019 08:05"], [-90, "in 1 min"]];
for (const [seconds, words] of AGO) {
  test(`${seconds} s are “${words}”`, () => assert.equal(relative(seconds, "2019-11-09T08:05:00+01:00"), words));
}

test("a moment of this year is said without it", () => {
  const year = new Date().getFullYear();
  assert.equal(moment(`${year}-03-22T18:04:09+00:00`), "22 Mar 18:04");
});

const SPANS = [[-1, "0 s"], [0, "0 s"], [61, "1 min 1 s"], [3600, "1 h"], [3661, "1 h 1 min"], [86400 + 59, "1 d"], [90000, "1 d 1 h"]];
for (const [seconds, words] of SPANS) {
  test(`a span of ${seconds} s is “${words}”`, () => assert.equal(span(seconds), words));
}

test("a span in an address has a unit, or is in seconds", () => {
  assert.deepEqual(["3600", "1h", "7d", "90m", "1.5h", "30s"].map(seconds), [3600, 3600, 604800, 5400, 5400, 30]);
  for (const none of ["", "h", "1w", "-1h", "1h2", "x"]) assert.ok(Number.isNaN(seconds(none)), none);
});

test("a history opens where something was recorded", () => {
  const now = 1_000_000_000;
  assert.deepEqual(opening(now - 1800, now - 5, now), { span: 3600, end: null });
  assert.deepEqual(opening(now - 9000, now - 5, now), { span: 3 * 3600, end: null });
  assert.deepEqual(opening(now - 90_000, now - 5, now), { span: 86400, end: null });
  assert.deepEqual(opening(now - 900_000, now - 400_000, now), { span: 86400, end: now - 400_000 });
  assert.deepEqual(opening(0, 0, now), { span: 86400, end: null });
});

test("a day of another year has its year", () => {
  assert.equal(day(Date.UTC(2019, 10, 9, 12) / 1000), "9 Nov 2019");
  assert.equal(day(Date.UTC(new Date().getFullYear(), 2, 22, 12) / 1000), "22 Mar");
});

test("a span is written into an address as one reads it", () => {
  assert.deepEqual([3600, 6 * 3600, 86400, 604800, 5400, 90, 31].map(written), ["1h", "6h", "1d", "7d", "90m", "90s", "31s"]);
  assert.equal(seconds(written(5400)), 5400);
});

test("marks that would cover each other are one", () => {
  assert.deepEqual(cluster([100, 103, 127, 128, 180], 28), [[0, 1, 2], [3], [4]]);
  assert.deepEqual(cluster([], 28), []);
  const groups = cluster(Array.from({ length: 500 }, (_, place) => place * 2), 28);
  assert.equal(groups.flat().length, 500);
  assert.ok(groups.length <= 1000 / 28 + 1);
});

const RUN = { server: "x", url: "/runs/1/", state: "failed", start: 100, ready: null, end: 200, phases: [{ words: "loading weights", at: 110 }] };
const FOUND = { from: 50, to: 350, now: 350, runs: [RUN], alerts: [{ title: "Full", severity: "critical", url: "/alerts/", start: 150, end: null }], reboots: [{ at: 60, words: "box restarts", url: "/boxes/box/" }] };

test("a lane has what happened in its range, a start by its phases where they have room", () => {
  assert.deepEqual(list(FOUND).map(({ at, kind, words }) => [at, kind, words]), [
    [60, "restart", "box restarts"], [100, "start", "x starts"], [110, "info", "x: loading weights"], [150, "alerts", "Full"], [200, "failed", "x failed"],
  ]);
  assert.deepEqual(list({ ...FOUND, to: 5000 }).map(({ kind }) => kind), ["restart", "start", "alerts", "failed"]);
  assert.deepEqual(list({ ...FOUND, from: 199 }).map(({ words }) => words), ["x failed"]);
  assert.deepEqual(list({ ...FOUND, runs: [{ ...RUN, state: "stopped" }], alerts: [], from: 199 }).map(({ kind, words }) => [kind, words]), [["stop", "x ends"]]);
});

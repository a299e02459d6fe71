// The order of a table's rows, and which of them a filter keeps.

import assert from "node:assert/strict";
import { test } from "node:test";

import { compare, matches } from "../../static/js/page/list-order.js";

const sorted = (values, way) => values.toSorted((one, other) => compare(one, other, way));

test("figures are sorted as numbers, words as people do, and what is unknown comes last both ways", () => {
  assert.deepEqual(sorted(["705", "15.3", "–", "9"], 1), ["9", "15.3", "705", "–"]);
  assert.deepEqual(sorted(["705", "15.3", "–", "9"], -1), ["705", "15.3", "9", "–"]);
  assert.deepEqual(sorted(["gpu-10", "", "GPU-2", "a"], 1), ["a", "GPU-2", "gpu-10", ""]);
});

test("a row matches that has every word that was typed, in any order and case", () => {
  const row = "Qwen/Qwen3-8B 15.3 GiB complete";
  assert.ok(matches(row, "complete qwen"));
  assert.ok(matches(row, ""));
  assert.ok(!matches(row, "qwen missing"));
});

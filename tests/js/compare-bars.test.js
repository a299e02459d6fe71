// Which column is called the fastest.

import assert from "node:assert/strict";
import { test } from "node:test";

import { MEASURES, fastest } from "../../static/js/gateway/compare/bars.js";
import { answer } from "./chat-messages.js";

const [first] = MEASURES;
const column = (...times) => ({ answers: times.map((firstMs) => answer("a", { firstMs })) });

const CASES = [
  ["nobody from one answer each", [column(10), column(90)], []],
  ["nobody while one column has fewer than three", [column(10, 10, 10), column(900, 900)], []],
  ["nobody where a figure is missing", [column(100, 100, 100), column(900, null, 900)], []],
  ["the one with the better median, whatever one answer took", [column(100, 100, 9000), column(900, 900, 20)], [0]],
  ["nobody of two that read the same", [column(100, 100, 100), column(100, 100, 101)], []],
  ["two that read the same, of three", [column(100, 100, 100), column(900, 900, 900), column(100, 100, 100)], [0, 2]],
  ["the median of four", [column(100, 200, 300, 400), column(100, 280, 290, 900)], [0]],
];

for (const [what, columns, wanted] of CASES) {
  test(`the fastest is ${what}`, () => assert.deepEqual([...fastest(columns, first)], wanted));
}

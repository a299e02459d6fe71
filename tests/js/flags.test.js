// Flags in a text box: where they stand, where the check's marks go, what they may become.

import assert from "node:assert/strict";
import { test } from "node:test";

import { FlagList } from "../../static/js/profiles/flags/list.js";
import { suggest } from "../../static/js/profiles/flags/suggest.js";
import { flags, here, placed, stray, typing, variables } from "../../static/js/profiles/flags/text.js";

const LIST = {
  engine: "vllm", version: "9.9", title: "vLLM", is_exact: true, asked: "", written: ["--port"], lent: {},
  removed: { "--old-name": "--max-model-len", "--gone": null }, env_prefixes: ["VLLM_"],
  env: ["VLLM_LOGGING_LEVEL", "VLLM_CACHE"],
  flags: [
    { names: ["--max-model-len"], type: "int" },
    { names: ["--tensor-parallel-size", "-tp"], type: "int" },
    { names: ["--kv-cache-dtype"], choices: ["auto", "fp8_e4m3", "fp8_e5m2"], default: "auto" },
    { names: ["--kv-cache-dtype-skip-layers"], takes: "many" },
    { names: ["--enforce-eager"], off: ["--no-enforce-eager"], takes: "none" },
    { names: ["--config-json"], type: "json", env: "VLLM_CONFIG" },
    { names: ["--port"], type: "int" },
  ],
};
const list = new FlagList(LIST);

const told = (word, more = {}) => ({ severity: "error", says: "No.", word, nth: 0, values: null, value: 0, instead: "", ...more });
/** What stands where the mark is, and what a click would write over. */
const cut = (text, isFlags, marks) =>
  placed(marks, isFlags, text).map(({ start, end, wrong, line }) => [text.slice(start, end), text.slice(wrong.start, wrong.end), line]);

const PLACED = [
  ["a name", "--a 1\n--b 2", told("--b"), ["--b", "--b", 2]],
  ["the second of two", "--a 1\n--a 2", told("--a", { nth: 1 }), ["--a", "--a", 2]],
  ["a value", "--a 1 'x y'", told("--a", { values: ["1", "x y"], value: 1 }), ["--a", "'x y'", 1]],
  ["a value that is missing", "--a", told("--a", { values: [] }), ["--a", "--a", 1]],
  ["stray words", "some words --a", told(""), ["some words", "some words", 1]],
  ["a word that was mended since", "--b", told("--a"), null],
  ["a value that was mended since", "--a 2", told("--a", { values: ["1"] }), null],
  ["stray words that are gone", "--a", told(""), null],
];
for (const [what, text, mark, wanted] of PLACED) {
  test(`a mark of ${what}`, () => assert.deepEqual(cut(text, true, [mark]), wanted ? [wanted] : []));
}

test("marks of variables stand at their names, in the order of the text", () => {
  assert.deepEqual(cut("A=1\nB=2", false, [told("B"), told("A")]), [["A", "A", 1], ["B", "B", 2]]);
});

const SUGGESTED = [
  ["the beginning of a name", "--kv-c", true, { part: "name", items: ["--kv-cache-dtype", "--kv-cache-dtype-skip-layers"], active: 0 }],
  ["a piece of a name", "--model", true, { part: "name", items: ["--max-model-len"], active: -1 }],
  ["a name with underscores", "--max_mod", true, { part: "name", items: ["--max-model-len"], active: 0 }],
  ["a name that is misspelled", "--max-modle-len", true, { part: "name", items: ["--max-model-len"], active: -1 }],
  ["an earlier name", "--old-name", true, { part: "name", items: ["--max-model-len"], active: -1 }],
  ["a name like none", "--zzzzz", true, null],
  ["one dash, which says too little", "-", true, null],
  ["a name that is complete", "--max-model-len", true, null],
  ["the beginning of a value", "--kv-cache-dtype fp8", true, { part: "value", items: ["fp8_e4m3", "fp8_e5m2"], active: 0 }],
  ["a value of which nothing is typed", "--kv-cache-dtype ", true, { part: "value", items: ["auto", "fp8_e4m3", "fp8_e5m2"], active: -1 }],
  ["a variable in small letters", "vllm_log", false, { part: "name", items: ["VLLM_LOGGING_LEVEL"], active: 0 }],
];

for (const [what, text, isFlags, wanted] of SUGGESTED) {
  test(`suggestions for ${what}`, () => {
    const found = suggest(list, isFlags, text, text.length, false);
    if (wanted === null) return assert.equal(found, null);
    const { part, items, active } = found;
    assert.deepEqual({ part, items: items.map((each) => each.text), active }, wanted);
  });
}

test("asked for, all names are suggested, with what they take", () => {
  const { items } = suggest(list, true, "--enforce-eager\n", 16, true);
  assert.equal(items.length, 7);
  assert.equal(items.find(({ text }) => text === "--port").hint, "written by inferdash");
  assert.equal(items.find(({ text }) => text === "--enforce-eager").hint, "switch");
});

test("the flag at the caret is that of its line", () => {
  const text = "--a 1\n--b 2";
  assert.equal(here(flags(text), text, 4).name, "--a");
  assert.equal(here(flags(text), text, 6).name, "--b");
  assert.equal(here(flags("--a 1\n\n"), "--a 1\n\n", 6), null);
});

test("what is typed at the caret is a name, a value or nothing", () => {
  const [flag] = flags("--a  1");
  assert.equal(typing(flag, "--a  1", 2).part, "name");
  assert.equal(typing(flag, "--a  1", 6).typed, "1");
  assert.equal(typing(flag, "--a  1", 4), null);
  assert.equal(typing(null, "", 0), null);
});

test("words before the first flag are told as one", () => {
  assert.deepEqual(stray("some words --a"), { start: 0, end: 10, text: "some words" });
  assert.equal(stray("--a"), null);
});

test("variables are read in every form in which people write them", () => {
  const found = variables("A=1\nexport B=two words\n-e C=\n--env=D=4\nE");
  assert.deepEqual(found.map(({ name, values }) => [name, values.map(({ text }) => text)]), [
    ["A", ["1"]], ["B", ["two words"]], ["C", [""]], ["D", ["4"]], ["E", []],
  ]);
});

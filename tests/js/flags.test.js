// Flags in a text box: where they stand, what is wrong with them, what they may become.

import assert from "node:assert/strict";
import { test } from "node:test";

import { closest, closestValue, likeness } from "../../static/js/profiles/flags/edit-distance.js";
import { FlagList } from "../../static/js/profiles/flags/list.js";
import { MOST, flagMarks, variableMarks } from "../../static/js/profiles/flags/marks.js";
import { suggest } from "../../static/js/profiles/flags/suggest.js";
import { flags, here, stray, typing, variables } from "../../static/js/profiles/flags/text.js";

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
const newest = new FlagList({ ...LIST, is_exact: false, elsewhere: { "--ours": "9.8" } });

const MARKED = [
  [list, "--max-modle-len 1", ["Unknown --max-modle-len is not known to vLLM 9.9. Did you mean --max-model-len?"]],
  [list, "--zzz-of-our-fork 3", ["Unknown --zzz-of-our-fork is not known to vLLM 9.9. It is passed on as it stands."]],
  [list, "--old-name 1", ["Removed --old-name is no longer in vLLM 9.9. Write --max-model-len."]],
  [list, "--gone", ["Removed --gone is no longer in vLLM 9.9. Nothing took its place."]],
  [list, "--kv 1", ["Ambiguous --kv is short for --kv-cache-dtype, --kv-cache-dtype-skip-layers: vLLM refuses it."]],
  [list, "--max 1", []],
  [list, "--max_model_len 1", []],
  [list, "a/b --max-model-len 1", ["Stray a/b stands before the first flag, where the engine expects none."]],
  [list, "-tp two", ["Value -tp takes a whole number, not “two”."]],
  [list, "-tp $TP", []],
  [list, "-tp <how many>", []],
  [list, "--kv-cache-dtype fp8_e5m3", ["Value --kv-cache-dtype does not know “fp8_e5m3”. Did you mean fp8_e5m2?"]],
  [list, "--kv-cache-dtype zzz", ["Value --kv-cache-dtype does not know “zzz”. It knows auto, fp8_e4m3, fp8_e5m2."]],
  [list, "--enforce-eager on", ["Value --enforce-eager takes no value; “on” behind it is refused."]],
  [list, "--max-model-len", ["Value --max-model-len needs a value."]],
  [list, "--max-model-len 1 2", ["Value --max-model-len takes one value, not 2."]],
  [list, "--config-json '{\"a\": b}'", ["Value --config-json says no valid JSON: check quotes and braces."]],
  [list, "--config-json.a=b", []],
  [newest, "--ours 1", ["Elsewhere --ours is in vLLM 9.8, but not in the newest list, vLLM 9.9."]],
  [newest, "-tp two", []],
];

for (const [of, text, wanted] of MARKED) {
  test(`marks of ${text} by ${of.is_exact ? "its own" : "the newest"} list`, () => {
    assert.deepEqual(flagMarks(of, text).map(({ kind, about, says }) => `${kind} ${about} ${says}`), wanted);
  });
}

test("a mark stands on its line, and mends its own word", () => {
  const text = "--enforce-eager\n--kv-cache-dtype FP8_E4M3";
  const [{ line, fix }] = flagMarks(list, text);
  assert.equal(line, 2);
  assert.equal(text.slice(0, fix.start) + fix.text + text.slice(fix.end), "--enforce-eager\n--kv-cache-dtype fp8_e4m3");
});

test("a paste of nonsense is not compared for ever", () => {
  const text = Array.from({ length: 500 }, (_each, at) => `--${at}-nonsense`).join(" ");
  assert.equal(flagMarks(list, text).length, MOST);
});

const VARIABLES = [
  ["VLLM_LOGING_LEVEL=1", ["VLLM_LOGING_LEVEL is not read by vLLM 9.9, so it does nothing. Did you mean VLLM_LOGGING_LEVEL?"]],
  ["VLLM_LOGGING_LEVEL=1\nNCCL_DEBUG=1", []],
];

for (const [text, wanted] of VARIABLES) {
  test(`marks of ${text}`, () => assert.deepEqual(variableMarks(list, text).map(({ about, says }) => `${about} ${says}`), wanted));
}

const SUGGESTED = [
  ["the beginning of a name", "--kv-c", true, { part: "name", items: ["--kv-cache-dtype", "--kv-cache-dtype-skip-layers"], active: 0 }],
  ["a piece of a name", "--model", true, { part: "name", items: ["--max-model-len"], active: -1 }],
  ["a name with underscores", "--max_mod", true, { part: "name", items: ["--max-model-len"], active: 0 }],
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

const ALIKE = [["abcd", "abcd", 1], ["abcd", "bcde", 0.75], ["", "", 1], ["a", "b", 0]];
for (const [one, other, wanted] of ALIKE) {
  test(`“${one}” and “${other}” are alike by ${wanted}`, () => assert.equal(likeness(one, other), wanted));
}

test("what is not alike enough is nothing that was meant", () => {
  assert.equal(closest("abcd", ["wxyz"], 0.7), null);
  assert.equal(closestValue("FP8-E4M3", ["auto", "fp8_e4m3"]), "fp8_e4m3");
});

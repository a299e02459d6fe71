// Where a text stops being JSON.

import assert from "node:assert/strict";
import { test } from "node:test";

import { parse } from "../../static/js/gateway/chat/json.js";
import { curl } from "../../static/js/gateway/chat/raw.js";

test("what is JSON is its value", () => {
  assert.deepEqual(parse('{"a": 1}'), { value: { a: 1 } });
  assert.deepEqual(parse("null"), { value: null });
});

const WRONG = [
  ["{\n  a: 1}", 4, '"a" may not stand there (line 2, column 3).'],
  ["[1, 2", 5, "It ends in the middle (line 1, column 6)."],
  ["", 0, "There is nothing, and JSON must be something."],
  [" \n", 2, "There is nothing, and JSON must be something."],
  ['Sure! Here it is: {"a": 1}', 0, '"S" may not stand there (line 1, column 1).'],
  ['```json\n{"a": 1}\n```', 0, '"`" may not stand there (line 1, column 1).'],
  ['{"a": 1,\n "b": None}', 15, '"N" may not stand there (line 2, column 7).'],
  ['{"a": [1, 2', 11, "It ends in the middle (line 1, column 12)."],
  ['{"languages": [\n{"name"', 23, "It ends in the middle (line 2, column 8)."],
  ["{oops", 1, '"o" may not stand there (line 1, column 2).'],
];

for (const [text, at, says] of WRONG) {
  test(`${JSON.stringify(text)} is no JSON`, () => assert.deepEqual(parse(text), { says, at }));
}

// Other browsers name the place otherwise, or not at all: JSON.parse stands in for theirs here.
const OTHERS = [
  ["Firefox", "JSON.parse: expected property name or '}' at line 2 column 3 of the JSON data"],
  ["Safari", "JSON Parse error: Expected '}'"],
];

for (const [browser, message] of OTHERS) {
  test(`${browser}'s word for it is understood`, (context) => {
    const text = "{\n  a: 1}";
    const real = JSON.parse;
    context.mock.method(JSON, "parse", (each) => {
      if (browser === "Firefox" || each === text) throw new SyntaxError(message);
      return real(each);
    });
    const { at } = parse(text);
    assert.equal(at, browser === "Firefox" ? 4 : text.length);
  });
}

test("a request for a shell is quoted, whatever stands in it", () => {
  assert.match(curl("http://x/v1", { a: "it's $HOME" }), /-d '\{"a":"it'\\''s \$HOME"\}'/);
});

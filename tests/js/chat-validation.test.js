// Whether a value is what a JSON schema says.

import assert from "node:assert/strict";
import { test } from "node:test";

import { problems, schemaProblem, unchecked } from "../../static/js/gateway/chat/validation.js";
import { knows, parametersOf, toolsProblem } from "../../static/js/gateway/chat/tools.js";

const OBJECT = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };
const CLOSED = { ...OBJECT, additionalProperties: false };
const LIST = { type: "array", items: { $ref: "#/$defs/one" }, $defs: { one: { enum: [1, 2] } } };

const CHECKED = [
  [OBJECT, { a: 1 }, []],
  [OBJECT, { a: 1.5 }, ["/a must be an integer"]],
  [OBJECT, {}, [" “a” is missing"]],
  [OBJECT, [], [" must be an object"]],
  [OBJECT, null, [" must be an object"]],
  [CLOSED, { a: 1, "b/c": 2 }, ["/b~1c is not in the schema"]],
  [LIST, [1, 2, 3], ["/2 must be one of 1, 2"]],
  [{ type: ["string", "null"] }, 1, [" must be a string or null"]],
  [{ minimum: 2, multipleOf: 3 }, 1, [" must be at least 2", " must be a multiple of 3"]],
  [{ exclusiveMinimum: 1, exclusiveMaximum: 1 }, 1, [" must be above 1", " must be below 1"]],
  [{ multipleOf: 0.1 }, 0.3, []],
  [{ minLength: 2 }, "😀", [" its length must be at least 2"]],
  [{ maxItems: 1, uniqueItems: true }, [1, 1], [" its number of entries must be at most 1", " has the same entry twice"]],
  [{ prefixItems: [{ const: 1 }], items: false }, [2, 3], ["/0 must be 1", "/1 nothing may stand here"]],
  [{ oneOf: [{ type: "number" }, { type: "integer" }] }, 1, [" must fit exactly one of oneOf"]],
  [{ anyOf: [{ type: "number" }] }, "x", [" fits none of anyOf"]],
  [{ allOf: [{ type: "string" }], not: { const: "x" } }, "x", [" is what “not” forbids"]],
  [{ $ref: "http://elsewhere/" }, 1, []],
  [{ $ref: "#/$defs/none" }, 1, []],
  [{ properties: { constructor: { type: "string" } } }, {}, []],
  [true, 1, []],
  [false, 1, [" nothing may stand here"]],
];

for (const [schema, value, wanted] of CHECKED) {
  test(`${JSON.stringify(value)} held against ${JSON.stringify(schema)}`, () => {
    assert.deepEqual(problems(schema, value).map(({ path, says }) => `${path} ${says}`), wanted);
  });
}

test("a schema that refers to itself in two ways comes to an end", () => {
  assert.ok(Array.isArray(problems({ anyOf: [{ $ref: "#" }, { $ref: "#" }] }, 1)));
});

test("of very many problems the first fifty are told", () => {
  const values = Array.from({ length: 80 }, () => "x");
  assert.equal(problems({ items: { type: "number" } }, values).length, 50);
});

const BROKEN = [
  [{ type: "objekt" }, /^\/type must be "object", "array"/],
  [{ type: "constructor" }, /^\/type must be/],
  [{ type: ["string", "toString"] }, /^\/type must be/],
  [{ properties: { a: { items: [] } } }, /^\/properties\/a\/items must be a schema\.$/],
  [{ required: [1] }, /^\/required must be a list of names\.$/],
  [{ enum: [] }, /^\/enum must be a list of values\.$/],
  [{ anyOf: [] }, /^\/anyOf must be a list of schemas\.$/],
  [{ $defs: { a: { type: 1 } } }, /^\/\$defs\/a\/type must be/],
  [[], /^The schema must be an object\.$/],
  [CLOSED, /^$/],
  [true, /^$/],
];

for (const [schema, wanted] of BROKEN) {
  test(`the schema ${JSON.stringify(schema)} itself`, () => assert.match(schemaProblem(schema), wanted));
}

test("what is not looked at is told", () => {
  assert.deepEqual(unchecked({ items: { pattern: "(a+)+$" }, format: "date" }), ["format", "pattern"]);
});

const TOOLS = [
  ['[{"name": "no spaces"}]', /^Tool 1 needs a name of letters/],
  ['[{"name": "x",\n}]', /^The tools are not JSON\. "}" may not stand there \(line 2, column 1\)/],
  ['{"name": "x"}', /^The tools must be a list/],
  ["[1]", /^Tool 1 must be an object/],
  ['[{"name": "x"}, {"type": "function", "function": {"name": "x"}}]', /^Two tools are called x/],
  ['[{"name": "x", "parameters": {"type": "objekt"}}]', /^The parameters of x: \/type must be/],
  ['[{"name": "x", "parameters": {"type": "object"}}]', /^$/],
];

for (const [text, wanted] of TOOLS) {
  test(`the tools ${text.replace("\n", " ")}`, () => assert.match(toolsProblem(text), wanted));
}

test("a request knows its tools and what they take", () => {
  const request = { tools: [{ type: "function", function: { name: "x", parameters: OBJECT } }] };
  assert.equal(knows(request, "x"), true);
  assert.equal(knows(request, "y"), false);
  assert.equal(knows(undefined, "x"), false);
  assert.equal(parametersOf(request, "x"), OBJECT);
  assert.equal(parametersOf(undefined, "x"), undefined);
});

// What an engine is told of a conversation.

import assert from "node:assert/strict";
import { test } from "node:test";

import { asked, history, resultsOf, turnsOf } from "../../static/js/gateway/chat/request.js";
import { answer, call, question, result } from "./chat-messages.js";

const PICTURE = { name: "a.png", url: "data:image/png;base64,AAAA", width: 1, height: 1, bytes: 3, note: "" };

const calls = [call("a", "x", '{"n": 1}'), call("b", "x", "{oops")];
const toldCalls = [
  { id: "a", type: "function", function: { name: "x", arguments: '{"n": 1}' } },
  { id: "b", type: "function", function: { name: "x", arguments: '{"not_json":"{oops"}' } },
];
const results = [result("a", "1"), result("b", "rain")];
const toldResults = [
  { role: "tool", tool_call_id: "a", content: "1" },
  { role: "tool", tool_call_id: "b", content: "rain" },
];

const TOLD = [
  ["questions and answers", [question("hi"), answer("ho"), question("on")], {}, [
    { role: "user", content: "hi" }, { role: "assistant", content: "ho" }, { role: "user", content: "on" },
  ]],
  ["a system prompt before all else", [question("hi")], { system: "Be brief." }, [
    { role: "system", content: "Be brief." }, { role: "user", content: "hi" },
  ]],
  ["no system prompt of blanks", [question("hi")], { system: " \n" }, [{ role: "user", content: "hi" }]],
  ["no reasoning of earlier answers", [question("hi"), answer("<think>Hm</think>\n\n42"), question("on")], {}, [
    { role: "user", content: "hi" }, { role: "assistant", content: "42" }, { role: "user", content: "on" },
  ]],
  ["no answer in which nothing came", [question("hi"), answer(""), question("on")], {}, [
    { role: "user", content: "hi" }, { role: "user", content: "on" },
  ]],
  ["pictures beside their text", [question("what?", { images: [PICTURE] })], {}, [
    { role: "user", content: [{ type: "text", text: "what?" }, { type: "image_url", image_url: { url: PICTURE.url } }] },
  ]],
  ["files before what is asked of them", [question("why?", { files: [{ name: "a b.py", text: "print()\n", bytes: 8 }, { name: "x.log", text: "```", bytes: 3 }, {}] })], {}, [
    { role: "user", content: "a b.py:\n```python\nprint()\n```\n\nx.log:\n````\n```\n````\n\nwhy?" },
  ]],
  ["pictures alone", [question("", { images: [PICTURE] })], {}, [
    { role: "user", content: [{ type: "image_url", image_url: { url: PICTURE.url } }] },
  ]],
  ["no picture that is another's address", [question("what?", { images: [{ ...PICTURE, url: "https://x/a.png" }] })], {}, [
    { role: "user", content: "what?" },
  ]],
  ["calls with their results, and what was thought since the question", [
    question("hi"), answer("", { calls, reasoning: "Which?" }), ...results,
  ], {}, [
    { role: "user", content: "hi" },
    { role: "assistant", content: "", tool_calls: toldCalls, reasoning_content: "Which?" },
    ...toldResults,
  ]],
  ["calls of an earlier question without the thoughts", [
    question("hi"), answer("", { calls, reasoning: "Which?" }), ...results, answer("so"), question("on"),
  ], {}, [
    { role: "user", content: "hi" },
    { role: "assistant", content: "", tool_calls: toldCalls },
    ...toldResults,
    { role: "assistant", content: "so" },
    { role: "user", content: "on" },
  ]],
  ["no calls of which one has no result", [question("hi"), answer("", { calls }), results[0], question("never mind")], {}, [
    { role: "user", content: "hi" }, { role: "user", content: "never mind" },
  ]],
];

for (const [what, messages, params, wanted] of TOLD) {
  test(`an engine is told ${what}`, () => assert.deepEqual(history({ messages, params }), wanted));
}

test("calls without an id get one each", () => {
  const messages = [question("hi"), answer("", { calls: [call("", "x", "{}"), call("", "x", "[1]")] }), result("call_0", "a"), result("call_1", "b")];
  const [, said] = history({ messages });
  assert.deepEqual(said.tool_calls.map(({ id }) => id), ["call_0", "call_1"]);
  assert.equal(said.tool_calls[1].function.arguments, '{"not_json":"[1]"}');
});

test("holes among the calls are none", () => {
  const messages = [answer("", { calls: [undefined, calls[0]] }), results[0]];
  assert.deepEqual(resultsOf(messages, 0), [results[0]]);
});

test("results belong to the answer that they follow at once", () => {
  const messages = [answer("", { calls: [calls[0]] }), question("no"), results[0]];
  assert.deepEqual(resultsOf(messages, 0), []);
  assert.deepEqual(resultsOf(messages, 1), []);
  assert.deepEqual(resultsOf(messages, -1), []);
});

test("a turn is a question and all that was said to it", () => {
  const [one, first, second, two] = [question("1"), answer("a"), answer("b"), question("2")];
  assert.deepEqual(turnsOf({ messages: [answer("before"), one, first, second, two] }), [
    { question: one, said: [first, second] }, { question: two, said: [] },
  ]);
});

test("an answer was asked with what stands before it", () => {
  const messages = [question("1"), answer("a"), question("2"), answer("b")];
  assert.deepEqual(asked({ messages, params: { system: "s" } }, messages[3]).map(({ content }) => content), ["s", "1", "a", "2"]);
});

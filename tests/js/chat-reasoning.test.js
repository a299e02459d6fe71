// What of an answer is its reasoning, in every form in which engines send it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { reasoningTokens, split } from "../../static/js/gateway/chat/reasoning.js";

const FORMS = [
  ["a field of its own", "42", "Hm.", ["Hm.", "42", false]],
  ["tags", "<think>\nHm.\n</think>\n\n42", "", ["\nHm.\n", "42", true]],
  ["tags after blanks", "\n <think>Hm.</think>42", "", ["Hm.", "42", true]],
  ["tags that are not closed yet", "<think>Hm", "", ["Hm", "", true]],
  ["longer tags", "<thinking>Hm.</thinking>42", "", ["Hm.", "42", true]],
  ["an opening tag in the prompt", "Hm.\n</think>\n42", "", ["Hm.", "42", true]],
  ["Mistral's tags", "[THINK]Hm.[/THINK]42", "", ["Hm.", "42", true]],
  ["Seed's tags", "<seed:think>Hm.</seed:think>42", "", ["Hm.", "42", true]],
  [
    "gpt-oss's channels",
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>42",
    "",
    ["Hm.", "42", true],
  ],
  ["a tag within a sentence, which is none", "The tag `</think>` ends it.", "", ["", "The tag `</think>` ends it.", false]],
  ["a closing tag beside a field of its own", "</think>\n42", "Hm.", ["Hm.", "</think>\n42", false]],
  ["none", "42", "", ["", "42", false]],
];

for (const [what, content, reasoning, [thinking, text, inText]] of FORMS) {
  test(`reasoning as ${what}`, () => assert.deepEqual(pick(split({ content, reasoning })), { thinking, text, inText }));
}

const pick = ({ thinking, text, inText }) => ({ thinking, text, inText });

const COUNTS = [
  ["in the details", { completion_tokens: 9, completion_tokens_details: { reasoning_tokens: 4 } }, [4, false]],
  ["beside them", { completion_tokens: 9, reasoning_tokens: 4 }, [4, false]],
  ["as none, by an engine without a parser", { completion_tokens: 9, completion_tokens_details: { reasoning_tokens: 0 } }, [6, true]],
  ["by nobody", { completion_tokens: 9 }, [6, true]],
];

for (const [what, usage, [tokens, isEstimate]] of COUNTS) {
  test(`the tokens of reasoning are counted ${what}`, () => {
    const answer = { content: "four", reasoning: "thoughts", calls: [], usage };
    assert.deepEqual(reasoningTokens(answer), { tokens, isEstimate });
  });
}

test("the arguments of calls are no reasoning", () => {
  const calls = [undefined, { id: "", name: "x", arguments: "12345678" }];
  const answer = { content: "", reasoning: "thoughts", calls, usage: { completion_tokens: 10 } };
  assert.deepEqual(reasoningTokens(answer), { tokens: 5, isEstimate: true });
});

test("without usage, or without reasoning, nobody can tell", () => {
  assert.equal(reasoningTokens({ content: "a", reasoning: "b", calls: [], usage: null }), null);
  assert.equal(reasoningTokens({ content: "a", reasoning: "", calls: [], usage: { completion_tokens: 3 } }), null);
});

// A conversation as a file.

import assert from "node:assert/strict";
import { test } from "node:test";

import { FORMS, TOGETHER, fileName } from "../../static/js/gateway/chat/export.js";
import { answer, call, conversation, question, result } from "./chat-messages.js";

const PICTURE = { name: "a_[b].png", url: "data:image/png;base64,AAAA", width: 2, height: 1, bytes: 3, note: "" };
const made = conversation(
  [
    question("What?", { images: [PICTURE] }),
    answer("It is ```x```.", { reasoning: "Hm.", calls: [call("a", "f", '{"n": 1}')] }),
    result("a", "one"),
    answer("", { error: { message: "Lost.", detail: "" } }),
  ],
  { params: { system: " Be brief. " } },
);

test("as Markdown it holds all that was said, and pictures below", () => {
  assert.equal(FORMS.markdown.make(made, {}), [
    "# What?", "## System", "Be brief.",
    "## You", "![a\\_\\[b\\].png, 2 × 1][picture 1]", "What?",
    "## tiny-qwen", "<details><summary>Reasoning</summary>\n\n```\nHm.\n```\n\n</details>", "It is ```x```.",
    "Calls `f`:", '```json\n{"n": 1}\n```',
    "## Result", "```\none\n```",
    "## tiny-qwen", "*Lost.*",
    `[picture 1]: ${PICTURE.url}`,
  ].join("\n\n") + "\n");
});

test("what holds a fence stands in a longer one", () => {
  const each = conversation([result("a", "````\nx\n````")]);
  assert.match(FORMS.markdown.make(each, {}), /\n`{5}\n````\nx\n````\n`{5}\n/);
});

test("as JSON it has its other versions where there are any", () => {
  assert.equal("every" in JSON.parse(FORMS.json.make(made, {})), false);
  const turned = { ...made, every: [...made.every, question("Else?")] };
  assert.equal(JSON.parse(FORMS.json.make(turned, {})).every.length, 5);
});

test("a program in Python knows None, True and what is no name of the package", () => {
  const body = { model: "m", top_k: 5, stop: null, logprobs: true, messages: [{ role: "user", content: 'a "b"\n' }] };
  const text = FORMS.python.make(made, { base: "http://box/v1", body });
  assert.match(text, /base_url="http:\/\/box\/v1"/);
  assert.match(text, / {4}stop=None,\n {4}logprobs=True,/);
  assert.match(text, /"content": "a \\"b\\"\\n",/);
  assert.match(text, /extra_body=\{\n {8}"top_k": 5,\n {4}\},/);
});

test("a request for a shell stands in a quotation that it cannot end", () => {
  const text = FORMS.curl.make(made, { base: "http://box/v1", body: { a: "it's $HOME `id`" } });
  assert.match(text, /<<'END_OF_REQUEST'\n\{\n {2}"a": "it's \$HOME `id`"\n\}\nEND_OF_REQUEST\n/);
});

test("columns are told under each question", () => {
  const columns = ["A", "B"].map((title) => ({ title, conversation: conversation([question("hi"), answer(`by ${title}`)], { params: { seed: "1" } }) }));
  const text = TOGETHER.markdown.make(columns[0].conversation, columns);
  assert.match(text, /- A: tiny, seed 1\n\n- B: tiny, seed 1\n\n## You\n\nhi\n\n### Column A\n\n## tiny-qwen\n\nby A\n\n### Column B/);
});

const NAMES = [["Hello $HOME `id`", "hello-home-id"], ["Größe: 3", "gro-e-3"], ["…", "conversation"]];
for (const [name, wanted] of NAMES) {
  test(`the file of “${name}” is ${wanted}`, () => {
    const found = fileName({ ...made, name }, "md");
    assert.match(found, /-\d{4}-\d\d-\d\d\.md$/);
    assert.equal(found.slice(0, -14), wanted);
  });
}

// Versions of what was said: the path through all that there ever was.

import assert from "node:assert/strict";
import { test } from "node:test";

import { change } from "../../static/js/gateway/chat/version-switch.js";
import { begin, follow, forgetEmpty, leafOf, shown, stored } from "../../static/js/gateway/chat/versions.js";
import { answer, conversation, question } from "./chat-messages.js";

// The contents of the path, after what the steps have done to a new conversation.
function said(...steps) {
  const made = conversation([]);
  for (const step of steps) step(made);
  return made;
}

const says = (content) => (made) => follow(made, content.startsWith("?") ? question(content) : answer(content));
const backTo = (count) => (made) => (made.messages.length = count);
const turn = (at, step) => (made) => change(made, made.messages[at], step);
const path = ({ messages }) => messages.map(({ content }) => content).join(" ");

const PATHS = [
  ["one after the other", [says("?1"), says("a"), says("?2"), says("b")], "?1 a ?2 b"],
  ["a changed question", [says("?1"), says("a"), says("?2"), says("b"), backTo(2), says("?3"), says("c")], "?1 a ?3 c"],
  ["the one before it", [says("?1"), says("a"), says("?2"), says("b"), backTo(2), says("?3"), says("c"), turn(2, -1)], "?1 a ?2 b"],
  ["and on to the next", [says("?1"), says("a"), says("?2"), says("b"), backTo(2), says("?3"), says("c"), turn(2, -1), turn(2, 1)], "?1 a ?3 c"],
  ["what is said after turning back", [says("?1"), says("a"), backTo(1), says("b"), turn(1, -1), says("?2")], "?1 a ?2"],
  ["a first question that was changed", [says("?1"), says("a"), backTo(0), says("?2"), says("b"), turn(0, -1)], "?1 a"],
  ["the newest of what followed", [says("?1"), says("a"), backTo(1), says("b"), backTo(0), says("?2"), turn(0, -1)], "?1 b"],
];

for (const [what, steps, wanted] of PATHS) {
  test(`the page shows ${what}`, () => assert.equal(path(said(...steps)), wanted));
  test(`it is kept and shown as before: ${what}`, () => {
    const made = said(...steps);
    const kept = JSON.parse(JSON.stringify(stored(made)));
    assert.equal(kept.messages.length, made.every.length);
    assert.equal(path(shown(kept)), wanted);
  });
}

test("only who does not follow the message before says whom", () => {
  const made = said(says("?1"), says("a"), backTo(0), says("?2"), says("b"));
  assert.deepEqual(made.every.map(({ parent }) => parent), [undefined, undefined, -1, undefined]);
  assert.deepEqual(said(says("?1"), says("a"), backTo(1), says("b")).every.map(({ parent }) => parent), [undefined, undefined, 0]);
});

test("nothing that is shown has no end", () => assert.equal(leafOf(conversation([])), null));

test("a conversation that was kept without an end shows its newest", () => {
  assert.equal(path(shown({ messages: [question("?1"), answer("a")] })), "?1 a");
  assert.equal(path(shown({ messages: [question("?1")], leaf: 7 })), "?1");
});

const EMPTY = [
  ["nothing", {}, 1],
  ["a text", { content: "a" }, 2],
  ["reasoning", { reasoning: "Hm" }, 2],
  ["a call", { calls: [{ id: "", name: "x", arguments: "" }] }, 2],
];

for (const [what, came, left] of EMPTY) {
  test(`an answer in which ${what} came leaves ${left} messages`, () => {
    const made = said(says("?1"), (each) => follow(each, answer("", came)));
    forgetEmpty(made, made.messages[1]);
    assert.deepEqual([made.every.length, made.messages.length], [left, left]);
  });
}

test("an empty answer that others follow stays: places would be others", () => {
  const made = said(says("?1"), says(""), says("?2"));
  forgetEmpty(made, made.messages[1]);
  assert.equal(made.every.length, 3);
});

test("a comparison begins with copies", () => {
  const from = said(says("?1"), says("a"), backTo(1), says("b"));
  const made = conversation([]);
  begin(made, from.messages);
  assert.deepEqual(made.messages, made.every);
  assert.equal(path(made), "?1 b");
  assert.equal(made.every[1].parent, undefined);
  made.messages[0].content = "other";
  assert.equal(from.messages[0].content, "?1");
});

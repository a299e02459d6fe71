// What of a conversation is sent to be kept, and when the server has it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Saving } from "../../static/js/gateway/chat/save.js";
import { answer, conversation, question } from "./chat-messages.js";

function saving(messages, how = {}) {
  const sent = [];
  const made = new Saving(conversation(messages), {
    post: async (_id, text) => {
      sent.push(JSON.parse(text));
      return how.answers?.shift() ?? { status: "kept", updated: 7 };
    },
    ...how,
  });
  return [made, sent];
}

const places = ({ messages }) => Object.keys(messages).map(Number);

test("the first time all is sent, then what has changed", async () => {
  const [made, sent] = saving([question("hi"), answer("h")]);
  made.mark();
  assert.equal((await made.keep(assert.fail)).status, "kept");
  made.conversation.every[1].content = "ho";
  made.mark(made.conversation.every[1]);
  await made.keep(assert.fail);
  assert.deepEqual(sent.map(places), [[0, 1], [1]]);
  assert.deepEqual(sent.map(({ count }) => count), [2, 2]);
  assert.deepEqual(sent[0].was, []);
  assert.deepEqual(sent[1].was, [sent[0].revision]);
  assert.equal(made.conversation.updated, 7);
  assert.equal(made.isBusy, false);
});

test("what has not changed is not sent", async () => {
  const [made, sent] = saving([question("hi")]);
  made.mark();
  await made.keep(assert.fail);
  made.mark();
  await made.keep(assert.fail);
  assert.equal(sent.length, 1);
});

test("an empty conversation is not sent", async () => {
  const [made, sent] = saving([]);
  made.mark();
  assert.equal((await made.keep(assert.fail)).status, "kept");
  assert.deepEqual(sent, []);
});

test("parameters and the name are sent though no message has changed", async () => {
  const [made, sent] = saving([question("hi")]);
  made.mark();
  await made.keep(assert.fail);
  made.conversation.name = "greeting";
  made.mark();
  await made.keep(assert.fail);
  assert.deepEqual([sent[1].name, sent[1].leaf, places(sent[1])], ["greeting", 0, []]);
});

test("what is longer than a request goes in several", async () => {
  const [made, sent] = saving([question("a".repeat(2_000_000)), answer("b".repeat(2_000_000)), question("c")]);
  made.mark();
  await made.keep(assert.fail);
  assert.deepEqual(sent.map(places), [[0], [1, 2]]);
  assert.deepEqual(sent.map(({ count }) => count), [1, 3]);
});

test("what changes on the way is sent after it", async () => {
  const [made, sent] = saving([question("hi"), answer("")]);
  made.post = async (_id, text) => {
    sent.push(JSON.parse(text));
    if (sent.length === 1) {
      made.conversation.every[1].content = "ho";
      made.mark(made.conversation.every[1]);
    }
    return { status: "kept", updated: 7 };
  };
  made.mark();
  await made.keep(assert.fail);
  assert.deepEqual(sent.map(places), [[0, 1], [1]]);
});

for (const status of ["changed", "refused"]) {
  test(`a conversation that is ${status} stays to be sent`, async () => {
    const [made] = saving([question("hi")], { answers: [{ status, message: "why" }] });
    made.mark();
    assert.deepEqual(await made.keep(assert.fail), { status, message: "why" });
    assert.equal(made.isDirty, true);
  });
}

test("while nobody answers it is said, and tried again", async () => {
  const [made, sent] = saving([question("hi")], { answers: [{ status: "away", message: "no answer" }] });
  const said = [];
  made.wait = async () => void said.push("waited");
  made.mark();
  assert.equal((await made.keep((words) => said.push(words))).status, "kept");
  assert.deepEqual(said, ["no answer", "waited"]);
  // The answer to the first may have been lost.
  assert.deepEqual(sent[1].was, [sent[0].revision]);
});

test("another one is of another name, of which nothing is kept", async () => {
  const [made, sent] = saving([question("hi")], { seen: ["r1"], stored: ['{"role":"user","content":"hi"}'] });
  made.renew();
  assert.notEqual(made.conversation.id, "c1");
  await made.keep(assert.fail);
  assert.deepEqual([sent[0].was, places(sent[0])], [[], [0]]);
});

test("who leaves sends what is short, and keeps it for a later page", () => {
  const [short] = saving([question("hi")]);
  assert.deepEqual(places(JSON.parse(short.farewell())), [0]);
  assert.equal(short.isDirty, true);
  const [long] = saving([question("€".repeat(30_000))]);
  assert.equal(long.farewell(), null);
});

// Where conversations are kept: by the server, and in the browser while it does not answer.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { AwayError, CUT_OFF, Store, newAnswer, newQuestion, settle, titleOf, wordsOf } from "../../static/js/gateway/chat/store.js";
import { answer, conversation, question } from "./chat-messages.js";

// As a browser's: its keys are its own.
class Storage {
  getItem(key) {
    return Object.hasOwn(this, key) ? this[key] : null;
  }
  setItem(key, text) {
    this[key] = text;
  }
  removeItem(key) {
    delete this[key];
  }
}

let asked;
let answers; // by method and path; a function is told the body
let stores;

beforeEach(() => {
  [asked, answers, stores] = [[], {}, []];
  globalThis.localStorage = new Storage();
  globalThis.fetch = async (url, { method = "GET", body } = {}) => {
    const name = `${method} ${url}`;
    asked.push(name);
    const said = answers[name];
    if (said === "never") return new Promise(() => {});
    if (said === undefined) throw new TypeError("Failed to fetch");
    const [status, words] = typeof said === "function" ? said(JSON.parse(body)) : said;
    return words === null ? new Response(null, { status }) : Response.json(words, { status });
  };
});

afterEach(() => {
  for (const store of stores) store.tabs.close();
});

function storeOf() {
  const store = new Store({ user: "7", url: "/c/", csrf: "token" });
  stores.push(store);
  return store;
}

const heard = (store, ...names) => {
  const found = [];
  for (const name of names) store.on(name, (detail) => found.push([name, detail]));
  return found;
};

const kept = (more = {}) => ({
  id: "c1", title: "hi", updated: 5, name: "", server: "tiny", comparison: "", column: 0, shared: "",
  params: {}, tools: null, schema: null, messages: [question("hi"), answer("ho")], leaf: 1, revision: "r1", age: 100, ...more,
});

test("a conversation is had as the server has it", async () => {
  answers["GET /c/c1/"] = [200, kept()];
  const store = storeOf();
  const found = await store.get("c1");
  assert.deepEqual(found.messages, [question("hi"), answer("ho")]);
  assert.equal(found.elsewhere, false);
  assert.equal(store.knows("c1", "r1"), true);
  assert.equal(store.knows("c1", "r2"), false);
});

test("one that is gone, or somebody else's, is none", async () => {
  answers["GET /c/c1/"] = [404, {}];
  assert.equal(await storeOf().get("c1"), null);
});

const RUNNING = [
  ["just now, arrives in another tab", 1, true, null],
  ["long ago, was cut off", 100, false, CUT_OFF],
];

for (const [what, age, elsewhere, error] of RUNNING) {
  test(`an answer that was saved ${what}`, async () => {
    answers["GET /c/c1/"] = [200, kept({ age, messages: [question("hi"), answer("h", { running: true })] })];
    const found = await storeOf().get("c1");
    assert.equal(found.elsewhere, elsewhere);
    assert.deepEqual(found.messages[1].error, error);
    assert.equal(found.messages[1].running, false);
  });
}

const KEYED = { key: "c1/a1", running: true };

test("an answer that goes on in the server is neither cut off nor another tab's", async () => {
  answers["GET /c/c1/"] = [200, kept({ age: 1, messages: [question("hi"), answer("h", KEYED)] })];
  const found = await storeOf().get("c1");
  assert.deepEqual([found.elsewhere, found.messages[1].running, found.messages[1].error], [false, true, null]);
});

test("what was erased with its conversation was cut off, when that comes back", async () => {
  answers["GET /c/c1/"] = [200, kept({ age: 1, messages: [question("hi"), answer("h", KEYED)] })];
  answers["POST /c/c1/restore/"] = [204, null];
  const store = storeOf();
  await store.restore("c1");
  const found = await store.get("c1");
  assert.deepEqual([found.elsewhere, found.messages[1].running, found.messages[1].error], [false, false, CUT_OFF]);
});

const SAME = [
  ["is ahead", { running: true }, { running: false, firstMs: 3 }, "Hello", ["kept"]],
  ["is behind", { running: false, content: "Hello you" }, { running: true }, "Hello you", ["reloaded", "kept"]],
  ["had more before it was over", { running: false, content: "H", stopped: true }, { running: false, firstMs: 3 }, "Hello", ["kept"]],
  ["is as far", { running: false, firstMs: 2 }, { running: false, firstMs: 3 }, "Hello", ["reloaded", "kept"]],
];

for (const [what, theirs, mine, content, events] of SAME) {
  test(`of two tabs with the same answer the one that ${what} makes no other conversation`, async () => {
    answers["GET /c/c1/"] = [200, kept({ messages: [question("hi"), answer("H", KEYED)] })];
    const store = storeOf();
    const found = heard(store, "reloaded", "copied", "kept");
    const made = await store.get("c1");
    Object.assign(made.messages[1], { content: "Hello", ...mine });
    const now = kept({ revision: "r2", messages: [question("hi"), answer("Hello", { key: "c1/a1", ...theirs })] });
    answers["POST /c/c1/"] = ({ was }) => (was.includes("r2") ? [200, { updated: 9 }] : ((answers["GET /c/c1/"] = [200, now]), [409, {}]));
    await store.save(made);
    assert.deepEqual(found.map(([name]) => name), events);
    assert.deepEqual([made.id, made.messages[1].content, made.messages[1].running], ["c1", content, false]);
  });
}

const AWAY = [
  ["does not answer", undefined, /does not answer/],
  ["has logged one out", [403, {}], /You are logged out/],
  ["is broken", [500, {}], /could not take this \(500\)/],
];

for (const [what, said, words] of AWAY) {
  test(`a server that ${what} is said`, async () => {
    answers["GET /c/c1/"] = said;
    await assert.rejects(storeOf().get("c1"), (error) => error instanceof AwayError && words.test(error.message));
  });
}

test("what was said is kept, and a draft of it is not", async () => {
  const store = storeOf();
  const found = heard(store, "kept", "away", "refused");
  const made = store.create({ temperature: "0" }, "tiny");
  made.messages.push(newQuestion("hi", []));
  made.every.push(made.messages[0]);
  let body;
  answers[`POST /c/${made.id}/`] = (said) => ((body = said), [200, { updated: 9 }]);
  await store.save(made);
  assert.deepEqual(found, [["kept", { conversation: made }]]);
  assert.deepEqual([body.params, body.server, body.leaf], [{ temperature: "0" }, "tiny", 0]);
  assert.equal(made.updated, 9);
  assert.deepEqual(Object.keys(localStorage), []);
});

test("what the server refuses is said", async () => {
  const store = storeOf();
  const found = heard(store, "refused");
  answers["POST /c/c1/"] = [400, { message: "Too long." }];
  const made = conversation([question("hi")]);
  await store.save(made);
  assert.deepEqual(found, [["refused", { conversation: made, message: "Too long." }]]);
});

test("another tab's changes of the same are taken over where there is none here", async () => {
  answers["GET /c/c1/"] = [200, kept()];
  const store = storeOf();
  const found = heard(store, "reloaded", "copied");
  const made = await store.get("c1");
  made.name = "mine";
  answers["POST /c/c1/"] = ({ was }) => (was.includes("r2") ? [200, { updated: 9 }] : [409, {}]);
  answers["GET /c/c1/"] = [200, kept({ revision: "r2", messages: [...kept().messages, question("there")], leaf: 2 })];
  await store.save(made);
  assert.deepEqual(found, [["reloaded", { conversation: made, isSame: false }]]);
  assert.deepEqual(made.messages.map(({ content }) => content), ["hi", "ho", "there"]);
});

test("of two tabs that have both gone on, this one goes on as a conversation of its own", async () => {
  answers["GET /c/c1/"] = [200, kept()];
  const store = storeOf();
  const found = heard(store, "reloaded", "copied", "kept");
  const made = await store.get("c1");
  made.every.push(question("here"));
  made.messages.push(made.every.at(-1));
  const theirs = kept({ revision: "r2", messages: [...kept().messages, question("there")], leaf: 2 });
  answers["POST /c/c1/"] = () => ((answers["GET /c/c1/"] = [200, theirs]), [409, {}]);
  const real = globalThis.fetch;
  globalThis.fetch = (url, how) => {
    if (how?.method === "POST" && url !== "/c/c1/") answers[`POST ${url}`] = [200, { updated: 9 }];
    return real(url, how);
  };
  await store.save(made);
  assert.deepEqual(found.map(([name]) => name), ["copied", "kept"]);
  assert.equal(found[0][1].from, "c1");
  assert.notEqual(made.id, "c1");
  assert.equal(made.name, "hi (from another tab)");
  assert.deepEqual(made.messages.map(({ content }) => content), ["hi", "ho", "here"]);
});

test("keys in another order are no other messages", async () => {
  answers["GET /c/c1/"] = [200, kept()];
  const store = storeOf();
  const found = heard(store, "reloaded", "copied");
  const made = await store.get("c1");
  made.every.push(question("on"));
  made.messages.push(made.every.at(-1));
  const turned = [...kept().messages, { content: "on", role: "user" }];
  answers["POST /c/c1/"] = ({ was }) => (was.includes("r2") ? [200, { updated: 9 }] : [409, {}]);
  const real = globalThis.fetch;
  globalThis.fetch = (url, how) => {
    if (how?.method === "POST") answers["GET /c/c1/"] = [200, kept({ revision: "r2", messages: turned, leaf: 2 })];
    return real(url, how);
  };
  await store.save(made);
  assert.deepEqual(found.map(([name]) => name), ["reloaded"]);
});

test("what a browser kept before the server did moves up once", async () => {
  const old = { id: "old", name: "", params: { system: "Be brief." }, server: "tiny", updated: 1700000000000, messages: [question("from before"), answer("Indeed.", { running: true })] };
  localStorage.setItem("inferdash.chat.7.old", JSON.stringify(old));
  localStorage.setItem("inferdash.chat.7.none", JSON.stringify({ ...old, id: "none", messages: [] }));
  localStorage.setItem("inferdash.chat.7.damaged", "{");
  localStorage.setItem("inferdash.chat.8.other", JSON.stringify({ ...old, id: "other" }));
  let body;
  answers["POST /c/old/"] = (said) => ((body = said), [200, { updated: 9 }]);
  await storeOf().ready;
  assert.deepEqual(asked, ["POST /c/old/"]);
  assert.deepEqual([body.updated, body.params, body.was, body.messages[1].error], [1700000000000, { system: "Be brief." }, [], CUT_OFF]);
  assert.deepEqual(Object.keys(localStorage).sort(), ["inferdash.chat.7.damaged", "inferdash.chat.8.other"]);
});

const DRAFTS = [
  ["a page that was left", { left: true }, true],
  ["a page that is long gone", { left: false, at: Date.now() - 130_000 }, true],
  ["an open tab", { left: false }, false],
];

for (const [what, how, isSent] of DRAFTS) {
  test(`the draft of ${what} is ${isSent ? "sent" : "left alone"}`, async () => {
    const draft = { at: Date.now(), seen: ["r1"], conversation: { ...conversation([]), messages: [question("hi")], leaf: 0 }, ...how };
    localStorage.setItem("inferdash.draft.7.c1", JSON.stringify(draft));
    let body;
    answers["POST /c/c1/"] = (said) => ((body = said), [200, { updated: 9 }]);
    await storeOf().ready;
    assert.equal(Object.hasOwn(localStorage, "inferdash.draft.7.c1"), !isSent);
    assert.deepEqual(body?.was, isSent ? ["r1"] : undefined);
  });
}

test("what a page cannot send when it is left stays in the browser", async () => {
  const store = storeOf();
  await store.ready;
  await store.load(); // as pages do before anything is said
  answers["POST /c/c1/"] = "never";
  const made = conversation([question("€".repeat(30_000))]);
  store.save(made);
  store.leave(made);
  const { left, conversation: draft } = JSON.parse(localStorage.getItem("inferdash.draft.7.c1"));
  assert.deepEqual([left, draft.leaf, draft.messages.length], [true, 0, 1]);
});

test("one that was never kept is deleted without a word to the server", async () => {
  const store = storeOf();
  await store.ready;
  const made = store.create({}, "tiny");
  await store.save(made);
  await store.remove(made.id);
  assert.deepEqual(asked, []);
});

test("an answer begins with nothing", () => {
  const made = newAnswer({ slug: "tiny", url: "/servers/tiny/", model: "tiny-qwen" });
  assert.deepEqual([made.server, made.content, made.calls, made.running, made.error], ["tiny", "", [], true, null]);
});

test("answers that nobody receives were cut off, and keep a reason that they have", () => {
  const [one, other, done] = [answer("", { running: true }), answer("", { running: true, error: { message: "x", detail: "" } }), answer("a")];
  assert.equal(settle([question("hi"), one, other, done], false), false);
  assert.deepEqual([one.error, other.error.message, done.error], [CUT_OFF, "x", null]);
});

const TITLES = [
  [{ name: "mine", messages: [question("hi")] }, "mine"],
  [{ name: "", messages: [answer("ho"), question("  hi\nthere")] }, "hi"],
  [{ name: "", messages: [question("a".repeat(80))] }, "a".repeat(60)],
  [{ name: "", messages: [], title: "theirs" }, "theirs"],
  [{ name: "", messages: [] }, "New conversation"],
];

for (const [each, wanted] of TITLES) {
  test(`a conversation is called ${wanted.slice(0, 20)}`, () => assert.equal(titleOf(each), wanted));
}

test("words in parts are its words", () => {
  assert.equal(wordsOf({ content: [{ text: "a" }, { type: "image_url" }, { text: "b" }] }), "a\nb");
});

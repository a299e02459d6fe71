// An answer as an engine sends it, in the dialects of vLLM, SGLang and llama.cpp.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { ChatError, ask, stop, takeUp } from "../../static/js/gateway/chat/stream.js";
import { answer as made } from "./chat-messages.js";

const real = globalThis.fetch;
afterEach(() => (globalThis.fetch = real));

const fresh = () => made("", { chunks: 0, finish: "", firstMs: null, spanMs: null });
const data = (...events) => events.map((each) => `data: ${typeof each === "string" ? each : JSON.stringify(each)}\n\n`).join("");
const said = (delta, more = {}) => ({ choices: [{ delta, ...more }] });
const end = said({}, { finish_reason: "stop" });

async function heard(body, headers = { "Content-Type": "text/event-stream" }, status = 200) {
  globalThis.fetch = async () => new Response(body, { status, headers });
  const answer = fresh();
  let error = null;
  try {
    await ask({ url: "/", csrf: "x", body: {}, signal: new AbortController().signal, answer, changed() {} });
  } catch (fault) {
    error = fault;
  }
  return { answer, error };
}

const call = (index, more, args) => said({ tool_calls: [{ index, ...more, function: { ...(more.id && { name: "x" }), arguments: args } }] });

const ANSWERS = [
  ["words", [said({ content: "Hel" }), said({ content: "lo" }), end], { content: "Hello", chunks: 2, finish: "stop" }],
  ["words in parts", [said({ content: [{ text: "Hi" }] }), end], { content: "Hi" }],
  ["reasoning", [said({ reasoning: "Hm" }), end], { reasoning: "Hm" }],
  ["reasoning by its other name", [said({ reasoning_content: "Hm" }), end], { reasoning: "Hm" }],
  ["usage and figures", [end, { choices: [], usage: { completion_tokens: 3 }, timings: { cache_n: 1 } }], { usage: { completion_tokens: 3 }, timings: { cache_n: 1 } }],
  ["what stopped it, by vLLM", [said({}, { finish_reason: "stop", stop_reason: "END" })], { matched: "END" }],
  ["what stopped it, by SGLang", [said({}, { finish_reason: "stop", matched_stop: "END" })], { matched: "END" }],
  ["a token's number that stopped it, which says nothing", [said({}, { finish_reason: "stop", stop_reason: 7 })], { matched: undefined }],
  ["a call in pieces", [call(0, { id: "a" }, ""), call(0, {}, '{"n":'), call(0, {}, " 1}"), end], { calls: [{ id: "a", name: "x", arguments: '{"n": 1}' }] }],
  ["two calls without numbers", [call(undefined, { id: "a" }, "1"), call(undefined, { id: "b" }, "2"), end], { calls: [{ id: "a", name: "x", arguments: "1" }, { id: "b", name: "x", arguments: "2" }] }],
  ["arguments that are no text", [call(0, { id: "a" }, { n: 1 }), end], { calls: [{ id: "a", name: "x", arguments: '{"n":1}' }] }],
  ["a number of a call that would fill the memory", [call(1e9, { id: "a" }, "1"), end], { calls: [{ id: "a", name: "x", arguments: "1" }] }],
  ["probabilities", [said({ content: "a" }, { logprobs: { content: [{ token: "a", logprob: -1, top_logprobs: [{ token: "b", logprob: -2 }, null] }, { token: 5 }] } }), end], { logprobs: [["a", -1, [["b", -2]]]] }],
  ["an end that only [DONE] tells", [said({ content: "a" }), "[DONE]"], { content: "a", finish: "" }],
];

for (const [what, events, wanted] of ANSWERS) {
  test(`an answer of ${what}`, async () => {
    const { answer, error } = await heard(data(...events));
    assert.equal(error, null);
    for (const [name, value] of Object.entries(wanted)) assert.deepEqual(answer[name], value, name);
  });
}

test("the request that the engine got is kept", async () => {
  const { answer } = await heard(`event: request\ndata: {"model": "m"}\n\n${data(end)}`);
  assert.deepEqual(answer.request, { model: "m" });
});

const FAULTS = [
  ["an error by inferdash", `event: error\ndata: {"message": "No run.", "detail": "d"}\n\n`, /^No run\.$/, "d"],
  ["an error in the stream", data(said({ content: "a" }), { error: { message: "CUDA out of memory" } }), /reported an error in the middle/, "CUDA out of memory"],
  ["an error in the stream that is a text", data({ error: "CUDA" }), /reported an error in the middle/, "CUDA"],
  ["an end without a finish", data(said({ content: "a" })), /without finishing/, ""],
];

for (const [what, body, words, detail] of FAULTS) {
  test(`an answer ends by ${what}, and what had come is kept`, async () => {
    const { answer, error } = await heard(body);
    assert.ok(error instanceof ChatError, String(error));
    assert.match(error.message, words);
    assert.equal(error.detail, detail);
    if (body.includes("content")) assert.equal(answer.content, "a");
  });
}

test("a connection that is lost in the middle is said", async () => {
  const stream = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(data(said({ content: "a" }))));
    },
    pull: (controller) => controller.error(new TypeError("network error")),
  });
  const { error } = await heard(stream);
  assert.match(error.message, /lost in the middle/);
});

const KEYED = { key: "c1/a1" };
const own = (name, said = {}) => `event: ${name}\ndata: ${JSON.stringify(said)}\n\n`;
const stream = (text) => new Response(text, { headers: { "Content-Type": "text/event-stream" } });
const cut = (text) =>
  new Response(
    new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode(text)),
      pull: (controller) => controller.error(new TypeError("network error")),
    }),
    { headers: { "Content-Type": "text/event-stream" } },
  );

// Asks, or takes up again without a body, of a server that answers with these in turn.
async function followed(responses, { isAsked = true, had = "", signal = new AbortController().signal } = {}) {
  globalThis.window = globalThis.document = new EventTarget();
  const [answer, urls, shown] = [Object.assign(fresh(), KEYED, { content: had }), [], []];
  globalThis.fetch = async (url) => {
    urls.push(url);
    const said = responses.shift();
    if (!said) throw new TypeError("Failed to fetch");
    return said;
  };
  const how = { answers: "/answers/", csrf: "x", signal, answer, changed: () => shown.push(answer.content) };
  let error = null;
  try {
    await (isAsked ? ask({ ...how, url: "/", body: {} }) : takeUp(how));
  } catch (fault) {
    error = fault;
  }
  return { answer, error, urls, shown };
}

test("an answer whose connection is cut is taken up where it was", async () => {
  const again = own("at", { ms: 40 }) + data(said({ content: "Hel" })) + own("now") + own("at", { ms: 90 }) + data(said({ content: "lo" }), end) + own("end");
  const { answer, error, urls, shown } = await followed([cut(data(said({ content: "Hel" }))), stream(again)]);
  assert.equal(error, null);
  assert.deepEqual(urls, ["/", "/answers/c1/a1/"]);
  assert.deepEqual([answer.content, answer.finish, answer.firstMs, answer.spanMs, answer.chunks], ["Hello", "stop", 40, 50, 2]);
  assert.ok(shown.every((each, at) => !at || each.length >= shown[at - 1].length), String(shown)); // it never shrinks
});

test("a stream that ends before its answer is taken up as well", async () => {
  const { answer, error } = await followed([stream(data(said({ content: "a" }))), new Response(null, { status: 503 }), stream(data(said({ content: "ab" }), end) + own("end"))]);
  assert.deepEqual([error, answer.content], [null, "ab"]);
});

const ENDS = [
  ["somebody has stopped", () => stream(own("stopped")), null, true],
  ["the server has no more", () => new Response(null, { status: 404 }), /keeps one for a day/, false],
  ["the engine has ended unfinished", () => stream(data(said({ content: "a" })) + own("end")), /without finishing/, false],
  ["nobody may see who is logged out", () => new Response(null, { status: 403 }), /logged out/, false],
];

for (const [what, response, words, isStopped] of ENDS) {
  test(`an answer taken up that ${what}`, async () => {
    const { answer, error } = await followed([response()], { isAsked: false });
    if (words) assert.match(error.message, words);
    else assert.equal(error, null);
    assert.equal(answer.stopped, isStopped);
  });
}

test("what the server has less of than the page had makes it no shorter", async () => {
  const lost = own("at", { ms: 1 }) + data(said({ content: "He" })) + own("error", { message: "lost its Redis", detail: "" });
  const { answer, error } = await followed([stream(lost)], { isAsked: false, had: "Hello" });
  assert.deepEqual([answer.content, error.message], ["Hello", "lost its Redis"]);
});

test("a stop that is not heard is said again", async () => {
  globalThis.window = globalThis.document = new EventTarget();
  const told = [];
  const said = [null, 503, 204];
  const all = new Promise((resolve) => {
    globalThis.fetch = async (url) => {
      told.push(url);
      const status = said.shift();
      if (!said.length) resolve();
      else setTimeout(() => window.dispatchEvent(new Event("online")));
      if (!status) throw new TypeError("Failed to fetch");
      return new Response(null, { status });
    };
  });
  await stop({ answers: "/answers/", csrf: "x", key: "c1/a1" });
  await all;
  assert.deepEqual(told, Array(3).fill("/answers/c1/a1/stop/"));
});

test("who stops while the connection is away waits no longer", async () => {
  const controller = new AbortController();
  const following = followed([], { isAsked: false, signal: controller.signal });
  controller.abort();
  assert.equal((await following).error.name, "AbortError");
});

test("what is no stream is said", async () => {
  assert.match((await heard("", { "Content-Type": "text/html" }, 403)).error.message, /logged out/);
  assert.match((await heard("", { "Content-Type": "text/html" }, 413)).error.message, /could not take the message \(413\)/);
});

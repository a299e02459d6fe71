// The steps by which the gateway is tested, what is heard, and what to do about a step that failed.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { TOO_SLOW, advice, reach, refuses } from "../../static/js/gateway/advice.js";
import { Refused, ask, models, whyNot } from "../../static/js/gateway/ask.js";
import { plan } from "../../static/js/gateway/checks.js";

const PLANS = [
  ["chat", ["GET /v1/models", "POST /v1/chat/completions"]],
  ["tools", ["GET /v1/models", "POST /v1/chat/completions", "POST /v1/chat/completions, with a tool"]],
  ["messages", ["POST /v1/messages", "POST /v1/messages, with a tool"]],
];
for (const [asks, wanted] of PLANS) {
  test(`a client that asks ${asks} is tested by its steps`, () => assert.deepEqual(plan(asks, "m").map(({ what }) => what), wanted));
}

const REACH = [
  ["http://box:8470/v1", "http://box:8470", /^$/],
  ["http://10.0.0.1:8470/v1", "http://box:8470", /^The lines say http:\/\/10\.0\.0\.1:8470, and this page is open at http:\/\/box:8470/],
  ["http://gpu.lan/v1", "https://gpu.lan", /^The lines say http:\/\/gpu\.lan, and this page is open at https:\/\/gpu\.lan/],
  ["http://localhost:8470/v1", "http://localhost:8470", /^localhost works only on this machine/],
  ["http://127.0.0.1:8470/v1", "http://127.0.0.1:8470", /^127\.0\.0\.1 works only on this machine/],
  ["http://[::1]:8470/v1", "http://[::1]:8470", /^\[::1\] works only on this machine/],
];
for (const [address, here, wanted] of REACH) {
  test(`lines that name ${address}, on a page at ${here}`, () => assert.match(reach(address, here), wanted));
}

const refused = (how) => new Refused("why", how);
const [, question, withTool] = plan("tools", "m");
const [message] = plan("messages", "m");

const ADVICE = [
  [{ status: 401, code: "invalid_api_key" }, question, /Make a key that may use models/],
  [{ status: 429, code: "rate_limited", retryAfter: "7" }, question, /again in 7 s/],
  [{ status: 503, code: "model_not_ready", retryAfter: "9" }, question, /test again in 9 s/],
  [{ status: 503, code: "model_not_ready" }, question, /Test again when it is ready/],
  [{ code: TOO_SLOW }, question, /server’s page says what it has to do/],
  [{ status: 404 }, message, /engine itself refuses this/],
  [{ status: 404, code: "no_such_path" }, message, /whose engine has it/],
  [{ status: 400 }, withTool, /refuses tools/],
  [{ status: 400 }, question, /engine itself refuses this/],
  [{ status: 200, isCut: true }, question, /broke its answer off/],
  [{ status: 500 }, question, /An error of the engine, or of inferdash/],
  [{ isForeign: true }, question, /Check that inferdash runs/],
  [{ status: 502, isForeign: true }, question, /a proxy between this browser and inferdash/],
];
for (const [how, step, wanted] of ADVICE) {
  test(`what to do about ${JSON.stringify(how)} at ${step.what}`, () => assert.match(advice(refused(how), step), wanted));
}

test("an engine refuses with a status of 400 or more, and without a code of inferdash", () => {
  assert.equal(refuses(refused({ status: 400 })), true);
  for (const how of [{ status: 500 }, { status: 400, code: "x" }, { status: 400, isCut: true }, { status: null }]) {
    assert.equal(refuses(refused(how)), false, JSON.stringify(how));
  }
});

const real = globalThis.fetch;
afterEach(() => (globalThis.fetch = real));

function answers(body, { status = 200, headers = { "Content-Type": "text/event-stream" } } = {}) {
  globalThis.fetch = async () => new Response(body, { status, headers });
}

const on = { signal: new AbortController().signal, begun() {} };
const data = (...events) => events.map((each) => `data: ${typeof each === "string" ? each : JSON.stringify(each)}\n\n`).join("");
const choice = (delta, finish_reason = null) => ({ choices: [{ delta, finish_reason }] });

const HEARD = [
  ["words", question, data(choice({ content: "Hel" }), choice({ content: "lo" }, "stop"), "[DONE]"), { words: "Hello", finish: "stop" }],
  ["thoughts", question, data(choice({ reasoning_content: "Hm" }, "length")), { thoughts: "Hm", finish: "length" }],
  ["a call", question, data(choice({ tool_calls: [{ function: { name: "x" } }] }, "tool_calls")), { calls: "x", finish: "tool_calls" }],
  ["Anthropic's words", message, data({ delta: { text: "Hi" } }, { delta: { stop_reason: "end_turn" } }, { type: "message_stop" }), { words: "Hi", finish: "end_turn" }],
  ["Anthropic's call", message, data({ content_block: { type: "tool_use", name: "x" } }, { type: "message_stop" }), { calls: "x", finish: "end" }],
];
for (const [what, step, body, wanted] of HEARD) {
  test(`an answer of ${what} is heard`, async () => {
    answers(body);
    const { words, thoughts, calls, finish } = await ask(step, "ifd_x", on);
    assert.deepEqual({ words, thoughts, calls, finish }, { words: "", thoughts: "", calls: "", ...wanted });
  });
}

const REFUSALS = [
  ["an error in the stream", data(choice({ content: "a" }), { error: { message: "CUDA", code: "engine_lost" } }), {}, { message: "CUDA", code: "engine_lost", isCut: true, status: 200 }],
  ["an error event without words", "event: error\ndata: {}\n\n", {}, { message: "", isCut: true }],
  ["an end without a finish", data(choice({ content: "a" })), {}, { isCut: true }],
  ["one piece", "{}", { headers: { "Content-Type": "application/json" } }, { message: "It answered in one piece, although a stream was requested." }],
  ["FastAPI's refusal", '{"detail": [{"msg": "no"}]}', { status: 422 }, { message: '[{"msg":"no"}]', status: 422, code: "" }],
  ["a refusal by the gateway", '{"error": {"message": "no"}}', { status: 401, headers: { "x-inferdash-error": "no_key" } }, { message: "no", code: "no_key" }],
  ["a null for an error", '{"error": null, "message": "no"}', { status: 400 }, { message: "no" }],
  ["a page of a proxy", "<h1>Bad gateway</h1>", { status: 502, headers: { "Content-Type": "text/html" } }, { isForeign: true, status: 502 }],
];
for (const [what, body, how, wanted] of REFUSALS) {
  test(`a step fails by ${what}`, async () => {
    answers(body, how);
    await assert.rejects(ask(question, "ifd_x", on), (error) => {
      assert.ok(error instanceof Refused, String(error));
      for (const [name, value] of Object.entries(wanted)) assert.equal(error[name], value, name);
      return true;
    });
  });
}

test("names, and why one is not ready, are told", async () => {
  answers('{"data": [{"id": "m", "server": "s", "ready": true}]}');
  assert.deepEqual((await models("ifd_x")).models.map(({ id }) => id), ["m"]);
  answers('{"why": "It starts."}');
  assert.equal(await whyNot("m", "ifd_x", on.signal), "It starts.");
  answers("", { status: 404 });
  assert.equal(await whyNot("m", "ifd_x", on.signal), "");
});

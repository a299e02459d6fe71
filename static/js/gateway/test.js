// @ts-check
// Tests the lines by which programs use the gateway: asks, by the same path and with the same key,
// what the program would, and shows each step while it goes on.

import { element } from "../page/dom.js";
import { advice, reach, refuses, TOO_SLOW } from "./advice.js";
import { Refused, ask, models, whyNot } from "./ask.js";
import { Models } from "./models.js";
import { plan } from "./checks.js";
import { Step, milliseconds, shown } from "./steps.js";
import { all, byId, find } from "../page/parts.js";
import { whenReleased } from "../page/pointer-guard.js";
import { isAbort } from "./chat/stream-reader.js";

const ABOUT_KEYS = new Set(["no_key", "invalid_api_key", "model_not_allowed", "rate_limited"]);
const PREFIX = "ifd_";
const PLACE = /ifd_(?:…|[\w-]+)/g; // of a key in the lines
// For a question, and for one whose server starts first.
const LIMIT = { seconds: 60, words: "60 s" };
const LIMIT_STARTING = { seconds: 600, words: "10 min" };
const LOOK_EVERY = 1000; // ms

const use = byId("use", HTMLElement);
const keyField = find(use, "#use-key", HTMLInputElement);
const problem = find(use, "#use-key-problem", HTMLElement);
const choice = new Models(use);
const buttons = all(use, "[data-test]", HTMLButtonElement);

/** Of the test that goes on. @type {AbortController | null} */
let running = null;
let listing = Promise.resolve();

const keysPage = use.dataset.keys ?? "";

function key() {
  return keyField.value.trim();
}

// Why there is nothing to test with; "" when there is.
function lack() {
  if (!key()) return "A test needs a key of yours.";
  if (!key().startsWith(PREFIX)) return `A key of inferdash begins with ${PREFIX}.`;
  return "";
}

/** @param {string} text */
function complain(text) {
  problem.textContent = text;
  keyField.setAttribute("aria-invalid", String(Boolean(text)));
  keyField.closest(".field")?.classList.toggle("has-error", Boolean(text));
}

// The names that the key may ask, as soon as there is one.
async function list() {
  if (lack()) return;
  try {
    choice.offer((await models(key())).models);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401) complain(error.message);
  }
}

keyField.addEventListener("input", () => complain(""));
// Left by a press of a button, which what is said here would move away from under the pointer.
keyField.addEventListener("change", () => whenReleased(() => (listing = list())));
find(use, "#use-form", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  buttons.find((each) => !each.closest("section")?.hidden)?.click();
});
for (const button of buttons) {
  button.addEventListener("click", () => (running ? running.abort() : test(button)));
}
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !running || event.defaultPrevented) return;
  event.preventDefault();
  running.abort();
});

/** @param {HTMLButtonElement} button */
async function test(button) {
  const missing = lack();
  complain(missing);
  if (missing) {
    keyField.focus();
    return;
  }
  /** @type {HTMLElement} */
  const place = button.closest(".use-test") ?? use;
  const outcome = find(place, ".use-outcome", HTMLElement);
  const rows = find(place, ".use-steps", HTMLElement);
  rows.replaceChildren();
  outcome.textContent = "";
  running = new AbortController();
  begin(button);
  try {
    await listing;
    if (!choice.chosen) await list(); // one may have come since the page was opened
    if (!choice.chosen) {
      outcome.textContent = choice.note.textContent;
      return;
    }
    outcome.textContent = await walk(plan(place.dataset.asks, choice.chosen), rows, running);
  } finally {
    running = null;
    end(button);
  }
}

/** @param {HTMLButtonElement} button */
function begin(button) {
  for (const each of buttons) each.disabled = each !== button;
  button.dataset.label = button.getAttribute("aria-label") ?? "";
  button.removeAttribute("aria-label");
  button.textContent = "Cancel (Esc)";
}

/** @param {HTMLButtonElement} button */
function end(button) {
  for (const each of buttons) each.disabled = false;
  button.setAttribute("aria-label", button.dataset.label ?? "");
  button.textContent = "Send test request";
}

// One step after the other, as far as they work; what came of them in a sentence.
/** @param {Gateway.Step[]} steps @param {HTMLElement} rows @param {AbortController} controller */
async function walk(steps, rows, controller) {
  /** @type {number | null} */
  let first = null;
  for (const [at, step] of steps.entries()) {
    const row = new Step(rows, step.what);
    const limit = new Limit(controller, row);
    try {
      first = (await (step.body ? question(step, row, limit) : names(row, limit))) ?? first;
    } catch (error) {
      if (isAbort(error) && !limit.isOver) {
        row.cancelled();
        return "Cancelled: nothing more is asked. A server that this has started goes on starting.";
      }
      const isTooSlow = limit.isOver && (isAbort(error) || error instanceof Refused);
      const refused = isTooSlow ? new Refused(`No whole answer within ${limit.most.words}.`, { code: TOO_SLOW }) : error;
      if (!(refused instanceof Refused)) throw error;
      row.fails(refused, advice(refused, step), links(refused, step));
      const isTool = step.hasTool && at > 0 && refuses(refused);
      return isTool ? "It answers, and refuses tools, which this program sends." : "It does not work yet: the step that failed says what to do.";
    } finally {
      limit.end();
    }
  }
  return `It works${first === null ? "" : `: the first token came after ${milliseconds(first)}`}.`;
}

/** @param {Step} row @param {Limit} limit */
async function names(row, limit) {
  const { status, models: listed } = await models(key(), limit.signal);
  choice.offer(listed);
  const isThere = listed.some(({ id }) => id === choice.chosen);
  row.works(status, [
    `${listed.length} ${listed.length === 1 ? "name" : "names"} that this key may ask`,
    ...(isThere ? [] : [`${choice.chosen} not among them`]),
  ]);
  return null;
}

/** @param {Gateway.Question} step @param {Step} row @param {Limit} limit */
async function question(step, row, limit) {
  limit.watch(() => whyNot(step.body.model, key(), limit.signal));
  const heard = await ask(step, key(), { signal: limit.signal, begun: () => limit.begun() });
  const figures = heard.firstMs === null ? [] : [`first token after ${milliseconds(heard.firstMs)}`];
  row.works(heard.status, figures, shown(heard));
  return heard.firstMs;
}

// Where it is mended.
/** @param {Refused} refused @param {Gateway.Step} step */
function links(refused, step) {
  /** @type {[text: string, address: string][]} */
  const pages = [];
  if (ABOUT_KEYS.has(refused.code)) pages.push(["Make a key", keysPage]);
  else if (step.hasTool && refuses(refused)) pages.push(["Playground", choice.page("playground")]);
  else if (refused.status || refused.code) pages.push(["Its server’s page", choice.page("server")]);
  return pages
    .filter(([, address]) => address)
    .map(([text, address]) => {
      const link = element("a", "", text);
      link.href = address;
      return link;
    });
}

// Says each second how long a step has waited, and for what, and ends it when it is too long.
class Limit {
  /** Why there is no answer yet. @type {(() => Promise<string>) | null} */
  look = null;
  isLooking = false;

  /** @param {AbortController} controller @param {Step} row */
  constructor(controller, row) {
    this.signal = controller.signal;
    this.most = LIMIT;
    this.isOver = false;
    this.since = performance.now();
    this.why = "";
    this.row = row;
    this.timer = setInterval(() => this.#tick(controller), LOOK_EVERY);
    this.#tell();
  }

  // `look` says why there is no answer yet: asked for until the answer begins.
  /** @param {() => Promise<string>} look */
  watch(look) {
    this.look = look;
  }

  begun() {
    this.look = null;
    this.#waitsFor("");
  }

  end() {
    clearInterval(this.timer);
  }

  /** @param {string} why */
  #waitsFor(why) {
    if (Boolean(why) !== Boolean(this.why)) {
      this.most = why ? LIMIT_STARTING : LIMIT;
      this.since = performance.now();
    }
    this.why = why;
  }

  /** @param {AbortController} controller */
  #tick(controller) {
    if (this.#passed > this.most.seconds) {
      this.isOver = true;
      controller.abort();
      return;
    }
    this.#tell();
    if (!this.look || this.isLooking) return;
    this.isLooking = true;
    this.look()
      .then((why) => this.look && (this.#waitsFor(why), this.#tell()))
      .catch(() => {}) // the question itself says what is wrong
      .finally(() => (this.isLooking = false));
  }

  get #passed() {
    return (performance.now() - this.since) / 1000;
  }

  #tell() {
    this.row.waits(`${this.why ? `${this.why} ` : ""}${Math.floor(this.#passed)} s, ${this.most.words} at most`);
  }
}

const note = find(use, "#use-reach", HTMLElement);
note.textContent = reach(use.dataset.address ?? location.origin, location.origin);
note.hidden = !note.textContent;

// What is shown on the page anyway need not be typed, and stands in the lines as it is.
/** @param {HTMLElement} shown */
function take(shown) {
  keyField.value = shown.textContent.trim();
  complain("");
  for (const lines of all(use, ".client pre", HTMLElement)) fill(lines, keyField.value);
  listing = list();
}

/** @param {Node} node @param {string} token */
function fill(node, token) {
  if (node instanceof Text) node.data = node.data.replace(PLACE, () => token);
  for (const each of node.childNodes) fill(each, token);
}

if (use.dataset.key) take(find(document, use.dataset.key, HTMLElement));
else window.addEventListener("pagehide", () => (keyField.value = ""));

// One that was made on this page.
new MutationObserver(() => {
  const shown = use.querySelector("#token");
  if (shown instanceof HTMLElement) take(shown);
}).observe(find(use, "#new-key", HTMLElement), { childList: true });

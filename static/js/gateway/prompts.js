// @ts-check
// A set of prompts, asked of one server one after another; and the chosen rounds of it side by side.

import { CsrfToken } from "../page/dom.js";
import { Parameters } from "./chat/params.js";
import { Presets } from "./chat/presets.js";
import { Servers, Standing } from "./chat/servers.js";
import { Side } from "./chat/side.js";
import { offerServers } from "./chat/server-select.js";
import { newAnswer } from "./chat/store.js";
import { TITLES } from "./compare/titles.js";
import { fetchPart, quietly } from "../page/fetch-part.js";
import { byId, find, partsOf, told } from "../page/parts.js";

/**
 * A round, as the server tells of it (servers/views/gateway/conversations.py).
 * @typedef {{
 *   id: number,
 *   prompts: string[],
 *   params: Chat.Params,
 *   answers: Record<string, Chat.Answer>,
 *   run: number,
 *   slug: string,
 *   model: string,
 *   engine: string,
 *   url: string,
 *   isMine: boolean,
 *   isUp: boolean,
 *   keep: string,
 * }} Told
 */

const page = byId("prompts", HTMLElement);
const $ = partsOf({
  "chat-params": HTMLElement,
  "chat-params-button": HTMLElement,
  "chat-params-form": HTMLFormElement,
  "chat-presets": HTMLElement,
  "chat-servers": HTMLElement,
  "chat-standings": HTMLElement,
  "chat-transcript": HTMLElement,
  "round-begin": HTMLButtonElement,
  "round-form": HTMLFormElement,
  "round-on": HTMLElement,
  "round-progress": HTMLElement,
  "round-server": HTMLSelectElement,
  "round-stop": HTMLElement,
});

/** @type {Told[]} */
const kept = told("rounds-told");
// What shows answers is large, and a set that was never asked has none.
const parts = kept.length ? await fetchPart("shows answers", () => import("./compare/turns.js")) : null;

// A round as a column of turns: its prompts in the order of all, each with its answer.
class Round {
  /** By place. @type {Map<number, Chat.Answer>} */
  found = new Map();

  /** @param {Told} told @param {string} title @param {string[]} order the prompts of all rounds */
  constructor(told, title, order) {
    this.id = told.id;
    this.prompts = told.prompts;
    this.params = told.params;
    this.run = told.run;
    this.slug = told.slug;
    this.model = told.model;
    this.engine = told.engine;
    this.url = told.url;
    this.isMine = told.isMine;
    this.isUp = told.isUp;
    this.keep = told.keep;
    this.title = title;
    this.order = order;
    for (const [place, body] of Object.entries(told.answers)) this.found.set(Number(place), body);
    /** @type {{messages: Chat.Message[]}} */
    this.conversation = { messages: [] };
    this.lay();
  }

  // Edited in between, sets are told apart by what the prompts say.
  lay() {
    this.conversation.messages = this.order.flatMap((text) => {
      const answer = this.found.get(this.prompts.indexOf(text));
      /** @type {Chat.Question} */
      const question = { role: "user", content: text };
      return answer ? [question, answer] : [question];
    });
  }

  // Places of the prompts that have no answer yet.
  get missing() {
    return this.prompts.map((_text, place) => place).filter((place) => !this.found.has(place));
  }

  // Places of the prompts whose answer failed, with the reason.
  get failed() {
    return this.prompts.flatMap((_text, place) => {
      const error = this.found.get(place)?.error;
      return error ? [{ place, error }] : [];
    });
  }

  get answered() {
    return this.prompts.length - this.missing.length - this.failed.length;
  }

  // What the engine is told: each prompt alone.
  /** @param {number} place @returns {Chat.Told[]} */
  asks(place) {
    const system = this.params.system ?? "";
    /** @type {Chat.Told[]} */
    const told = [{ role: "user", content: this.prompts[place] ?? "" }];
    return system.trim() ? [{ role: "system", content: system }, ...told] : told;
  }
}

class Prompts {
  /** @type {Round[]} */
  rounds = [];
  /** @type {import("./compare/turns.js").Turn<Round>[]} */
  turns = [];
  /** Of all rounds. @type {string[]} */
  prompts = [];
  /** @type {AbortController | null} */
  asking = null;
  isLeaving = false;
  told = ""; // what came of asking

  constructor() {
    this.csrf = new CsrfToken(page, $("round-form"));
    this.parameters = new Parameters($("chat-params-form"));
    this.servers = new Servers({ list: $("chat-servers"), here: page.dataset.here ?? "", preselected: page.dataset.preselected ?? "" });
    offerServers(this.servers, $("round-server"));
    this.presets = new Presets({
      root: $("chat-presets"), url: page.dataset.presets, csrf: this.csrf, servers: this.servers,
      now: () => ({ params: this.parameters.values, tools: null, schema: null }),
    });
    new Standing({ root: $("chat-standings"), servers: this.servers });
    this.parameters.values = told("rounds-params");
    this.draw();
    this.listen();
    this.refresh();
    this.resume();
  }

  draw() {
    // As the newest has them; then what only the others have.
    const prompts = [...new Set(kept.flatMap((each) => each.prompts))];
    this.rounds = kept.map((each, at) => new Round(each, TITLES.charAt(at), prompts));
    this.turns = parts ? prompts.map((_text, at) => new parts.Turn(at, this.rounds, (round) => this.actions(round))) : [];
    $("chat-transcript").replaceChildren(...this.turns.map(({ root }) => root));
    this.prompts = prompts;
  }

  /** @param {Round} round */
  actions(round) {
    return { asked: (/** @type {Chat.Answer} */ message) => round.asks([...round.found].find(([, answer]) => answer === message)?.[0] ?? 0) };
  }

  listen() {
    for (const part of [this.servers, this.parameters]) part.addEventListener("change", () => this.refresh());
    this.presets.picks((detail) => {
      this.parameters.values = detail.params;
      this.refresh();
    });
    $("round-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.begin();
    });
    $("round-stop").addEventListener("click", () => this.stop());
    $("round-on").addEventListener("click", () => this.open && quietly(this.ask(this.open)));
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.asking && !event.defaultPrevented) this.stop();
    });
    document.addEventListener("htmx:before:history:restore", (event) => event.preventDefault());
    window.addEventListener("beforeunload", (event) => {
      this.isLeaving = true;
      setTimeout(() => (this.isLeaving = false), 2000);
      if (this.asking) event.preventDefault(); // the browser asks whether to go
    });
  }

  // The round of one's own whose rest can be asked.
  get open() {
    return this.rounds.find((round) => round.isMine && round.isUp && round.missing.length);
  }

  refresh() {
    this.parameters.engine = this.servers.find(this.servers.wanted)?.engine;
    const problem = this.servers.problem || this.parameters.check();
    $("round-begin").disabled = Boolean(problem || this.asking);
    $("round-server").disabled = Boolean(this.asking);
    $("round-begin").title = problem;
    $("round-stop").hidden = !this.asking;
    const { open } = this;
    $("round-on").hidden = Boolean(this.asking) || !open;
    if (open) $("round-on").textContent = `Go on with ${open.title}: ${open.missing.length} left`;
    if (!this.asking && problem) this.say(problem);
    else if (!this.asking && !this.told) this.say("");
  }

  async begin() {
    const body = { run: this.servers.chosen?.run ?? null, params: this.parameters.values };
    const said = await post(page.dataset.begin ?? "", body, this.csrf);
    if (said.url) window.location.assign(said.url);
    else this.say(said.message ?? "");
  }

  // The page was opened to ask: once, and not again when it is reloaded.
  resume() {
    const round = this.rounds.find(({ id }) => String(id) === page.dataset.begun);
    if (!round) return;
    window.history.replaceState(null, "", page.dataset.address ?? "");
    if (round === this.open) quietly(this.ask(round));
  }

  /** @param {Round} round */
  async ask(round) {
    const { receive } = await fetchPart("asks", () => import("./chat/answering.js"));
    this.asking = new AbortController();
    const { signal } = this.asking;
    this.parameters.values = round.params;
    this.parameters.engine = round.engine;
    const { request } = this.parameters;
    this.refresh();
    const all = round.prompts.length;
    for (const place of round.missing) {
      this.say(`Asking ${round.slug}: prompt ${place + 1} of ${all}. Esc stops.`);
      const problem = await this.one(round, place, { params: request, signal, receive });
      if (signal.aborted || problem) {
        this.end(problem || `Stopped: ${counted(round)}.`);
        return;
      }
    }
    this.end(`${round.slug}: ${counted(round)}. They are kept with its run.`);
  }

  // Why it cannot go on; "" when it can.
  /**
   * @param {Round} round
   * @param {number} place
   * @param {{params: Record<string, unknown>, signal: AbortSignal, receive: typeof import("./chat/answering.js").receive}} how
   */
  async one(round, place, { params, signal, receive }) {
    const message = newAnswer(round);
    round.found.set(place, message);
    round.lay();
    const turn = this.turns[this.prompts.indexOf(round.prompts[place] ?? "")];
    if (!turn) throw new TypeError(`There is no prompt ${place + 1} on this page.`);
    turn.draw(round);
    turn.root.scrollIntoView({ block: "nearest" });
    const view = () => ({ wait: (/** @type {string} */ text) => turn.views.get(message)?.wait?.(text), update: () => turn.drawn(message) });
    await receive({
      url: page.dataset.url ?? "", csrf: this.csrf, body: { run: round.run, messages: round.asks(place), params }, signal, message, view,
      keep: () => {}, isLeaving: () => this.isLeaving,
    });
    message.running = false;
    let problem = "";
    // What was stopped is no answer: it is asked again when one goes on.
    if (message.stopped || this.isLeaving) round.found.delete(place);
    else problem = await this.keep(round, place, message);
    round.lay();
    turn.draw(round);
    const head = find(document, `[data-round="${round.id}"]`, HTMLElement);
    find(head, "[data-answered]", HTMLElement).textContent = String(round.answered);
    find(head, "[data-failed]", HTMLElement).textContent = round.failed.length ? `, ${round.failed.length} failed` : "";
    return problem;
  }

  /** @param {Round} round @param {number} place @param {Chat.Answer} message */
  async keep(round, place, message) {
    const said = await post(`${round.keep}${place}/`, message, this.csrf);
    if (!said.message) return "";
    round.found.delete(place);
    return `The answer to prompt ${place + 1} could not be kept. ${said.message}`;
  }

  /** @param {string} text */
  end(text) {
    this.asking = null;
    this.told = text;
    this.say(text);
    this.refresh();
  }

  stop() {
    this.asking?.abort();
  }

  /** @param {string} text */
  say(text) {
    $("round-progress").textContent = text;
    $("round-progress").hidden = !text;
  }
}

// How many prompts were answered, and which were not.
/** @param {Round} round */
function counted({ prompts, answered, failed }) {
  const [first] = failed;
  const words = `${answered} of ${prompts.length} prompts answered`;
  if (!first) return words;
  const places = failed.map(({ place }) => place + 1).join(", ");
  const reason = `${first.error.message} ${first.error.detail}`.trim().replace(/[.\s]+$/, "");
  return `${words}, ${failed.length} failed: prompt${failed.length > 1 ? "s" : ""} ${places} (${reason})`;
}

// {url}, {} or {message}: why not.
/**
 * @param {string} url
 * @param {unknown} body
 * @param {CsrfToken} csrf
 * @returns {Promise<{url?: string, message?: string}>}
 */
async function post(url, body, csrf) {
  const headers = { "X-CSRFToken": String(csrf), "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  } catch {
    return { message: "inferdash does not answer. Try again when it does." };
  }
  if (response.redirected || response.status === 403) return { message: "You are logged out, or may no longer ask. Log in, then try again." };
  const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
  if (response.ok || response.status === 400) return isJson ? response.json() : {};
  return { message: `inferdash could not take this (${response.status}). Reload the page, then try again.` };
}

new Side({ panel: $("chat-params"), button: $("chat-params-button"), place: page, name: "params" });
new Prompts();

// A set of prompts, asked of one server one after another; and the chosen rounds of it side by side.

import { receive } from "./chat-answering.js";
import { CsrfToken } from "./chat-dom.js";
import { Parameters } from "./chat-params.js";
import { Presets } from "./chat-presets.js";
import { Servers } from "./chat-servers.js";
import { Standing } from "./chat-standing.js";
import { newAnswer } from "./chat-store.js";
import { TITLES, Turn } from "./compare-turns.js";

const page = document.getElementById("prompts");
const $ = (id) => document.getElementById(id);
const read = (id) => JSON.parse($(id).textContent);

// A round as a column of turns: its prompts in the order of all, each with its answer.
class Round {
  constructor(told, title, prompts) {
    Object.assign(this, told, { title, order: prompts });
    this.found = new Map(); // place -> answer
    for (const [place, body] of Object.entries(told.answers)) this.found.set(Number(place), body);
    this.conversation = { messages: [], params: told.params };
    this.lay();
  }

  // Edited in between, sets are told apart by what the prompts say.
  lay() {
    this.conversation.messages = this.order.flatMap((text) => {
      const answer = this.found.get(this.prompts.indexOf(text));
      return [{ role: "user", content: text }, ...(answer ? [answer] : [])];
    });
  }

  // Places of the prompts that have no answer yet.
  get missing() {
    return this.prompts.map((_text, place) => place).filter((place) => !this.found.has(place));
  }

  // What the engine is told: each prompt alone.
  asks(place) {
    const system = this.params.system?.trim() ? [{ role: "system", content: this.params.system }] : [];
    return [...system, { role: "user", content: this.prompts[place] }];
  }
}

class Prompts {
  constructor() {
    this.csrf = new CsrfToken(page, $("round-form"));
    this.parameters = new Parameters($("chat-params-form"));
    this.servers = new Servers({ list: $("chat-servers"), select: $("round-server"), here: page.dataset.here, preselected: page.dataset.preselected });
    this.presets = new Presets({
      root: $("chat-presets"), url: page.dataset.presets, csrf: this.csrf, servers: this.servers,
      now: () => ({ params: this.parameters.values, tools: null, schema: null }),
    });
    new Standing({ root: $("chat-standings"), servers: this.servers });
    this.parameters.values = read("rounds-params");
    this.draw();
    this.listen();
    this.refresh();
    this.resume();
  }

  draw() {
    const told = read("rounds-told");
    // As the newest has them; then what only the others have.
    const prompts = [...new Set(told.flatMap((each) => each.prompts))];
    this.rounds = told.map((each, at) => new Round(each, TITLES[at], prompts));
    this.turns = this.rounds.length ? prompts.map((_text, at) => new Turn(at, this.rounds, (round) => this.actions(round))) : [];
    $("chat-transcript").replaceChildren(...this.turns.map(({ root }) => root));
    this.prompts = prompts;
  }

  actions(round) {
    return { asked: (message) => round.asks([...round.found].find(([, answer]) => answer === message)?.[0] ?? 0) };
  }

  listen() {
    for (const part of [this.servers, this.parameters]) part.addEventListener("change", () => this.refresh());
    this.presets.addEventListener("pick", ({ detail }) => {
      this.parameters.values = detail.params;
      this.refresh();
    });
    $("round-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.begin();
    });
    $("round-stop").addEventListener("click", () => this.stop());
    $("round-on").addEventListener("click", () => this.ask(this.open));
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
    const body = JSON.stringify({ run: this.servers.chosen?.run ?? null, params: this.parameters.values });
    const headers = { "X-CSRFToken": this.csrf, "Content-Type": "application/json" };
    const said = await post(page.dataset.begin, headers, body);
    if (said.url) window.location.assign(said.url);
    else this.say(said.message);
  }

  // The page was opened to ask: once, and not again when it is reloaded.
  resume() {
    const round = this.rounds.find(({ id }) => String(id) === page.dataset.begun);
    if (!round) return;
    window.history.replaceState(null, "", page.dataset.address);
    if (round === this.open) this.ask(round);
  }

  async ask(round) {
    this.asking = new AbortController();
    const { signal } = this.asking;
    this.parameters.values = round.params;
    this.parameters.engine = round.engine;
    const { request } = this.parameters;
    this.refresh();
    const all = round.prompts.length;
    for (const place of round.missing) {
      this.say(`Asking ${round.slug}: prompt ${place + 1} of ${all}. Esc stops.`);
      const problem = await this.one(round, place, request, signal);
      if (signal.aborted || problem) {
        this.end(problem || `Stopped: ${all - round.missing.length} of ${all} prompts are answered.`);
        return;
      }
    }
    this.end(`${round.slug} has answered all ${all} prompts. They are kept with its run.`);
  }

  // Why it cannot go on; "" when it can.
  async one(round, place, params, signal) {
    const message = newAnswer(round);
    round.found.set(place, message);
    round.lay();
    const turn = this.turns[this.prompts.indexOf(round.prompts[place])];
    turn.draw(round);
    turn.root.scrollIntoView({ block: "nearest" });
    const view = () => ({ wait: (text) => turn.views.get(message)?.wait(text), update: () => turn.drawn(message) });
    await receive({
      url: page.dataset.url, csrf: this.csrf, body: { run: round.run, messages: round.asks(place), params }, signal, message, view,
      keep: () => {}, isLeaving: () => this.isLeaving,
    });
    message.running = false;
    let problem = "";
    // What was stopped is no answer: it is asked again when one goes on.
    if (message.stopped || this.isLeaving) round.found.delete(place);
    else problem = await this.keep(round, place, message);
    round.lay();
    turn.draw(round);
    const told = document.querySelector(`[data-round="${round.id}"] [data-answered]`);
    told.textContent = round.prompts.length - round.missing.length;
    return problem;
  }

  async keep(round, place, message) {
    const headers = { "X-CSRFToken": this.csrf, "Content-Type": "application/json" };
    const said = await post(`${round.keep}${place}/`, headers, JSON.stringify(message));
    if (!said.message) return "";
    round.found.delete(place);
    return `The answer to prompt ${place + 1} could not be kept. ${said.message}`;
  }

  end(text) {
    this.asking = null;
    this.told = text;
    this.say(text);
    this.refresh();
  }

  stop() {
    this.asking?.abort();
  }

  say(text) {
    $("round-progress").textContent = text;
    $("round-progress").hidden = !text;
  }
}

// {url}, {} or {message}: why not.
async function post(url, headers, body) {
  let response;
  try {
    response = await fetch(url, { method: "POST", headers, body });
  } catch {
    return { message: "inferdash does not answer. Try again when it does." };
  }
  if (response.redirected || response.status === 403) return { message: "You are logged out, or may no longer ask. Log in, then try again." };
  const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
  if (response.ok || response.status === 400) return isJson ? response.json() : {};
  return { message: `inferdash could not take this (${response.status}). Reload the page, then try again.` };
}

$("chat-params").open = window.matchMedia("(min-width: 60.01rem)").matches;
new Prompts();

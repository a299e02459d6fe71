// Two to four columns that are asked the same, side by side: puts columns, parameters and turns
// together.

import { outcome } from "./chat-answering.js";
import { CsrfToken, element, onStop } from "./chat-dom.js";
import { emptyState } from "./chat-empty.js";
import { End } from "./chat-end.js";
import { pictures } from "./chat-images.js";
import { Menus } from "./chat-menu.js";
import { turnsOf } from "./chat-request.js";
import { newKey } from "./chat-save.js";
import { AwayError, Store } from "./chat-store.js";
import { begin, change, follow, forgetEmpty, versionsView } from "./chat-versions.js";
import { Asking } from "./compare-asking.js";
import { Column } from "./compare-column.js";
import { Panel } from "./compare-panel.js";
import { TITLES, Turn } from "./compare-turns.js";

const page = document.getElementById("compare");
const $ = (id) => document.getElementById(id);

class Compare {
  constructor() {
    this.csrf = new CsrfToken(page, $("chat-composer"));
    this.key = page.dataset.comparison || newKey();
    this.name = "";
    this.columns = [];
    this.turns = [];
    this.store = new Store({ user: page.dataset.user, url: page.dataset.conversations, csrf: this.csrf });
    this.asking = new Asking({ url: page.dataset.url, csrf: this.csrf, store: this.store });
    this.panel = new Panel({ csrf: this.csrf, presets: page.dataset.presets });
    this.end = new End($("chat-transcript"));
    this.menus = new Menus({
      share: $("chat-share"), files: $("chat-files-menu"), store: this.store,
      current: () => this.first,
      columns: () => this.columns,
      asked: () => ({ base: `${location.origin}/v1`, params: this.columns[0].request, model: this.columns[0].server?.model ?? "" }),
      say: (text) => this.notice(text),
    });
    this.listen();
    this.begin();
  }

  // What stands for all of it: the first column's conversation.
  get first() {
    return this.columns[0]?.conversation ?? { messages: [] };
  }

  get hasBegun() {
    return this.turns.some((turn) => !turn.isCopied);
  }

  listen() {
    this.panel.addEventListener("edit", () => this.changed());
    for (const name of ["choose", "refresh"]) this.panel.addEventListener(name, () => this.refresh());
    this.asking.addEventListener("change", () => this.refresh());
    $("compare-system").addEventListener("input", () => this.changed());
    $("compare-order").addEventListener("change", () => this.refresh());
    $("compare-add").addEventListener("click", () => this.add());
    $("chat-name").addEventListener("change", ({ target }) => {
      this.name = target.value.trim();
      this.changed();
    });
    $("chat-composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    $("chat-input").addEventListener("keydown", (event) => {
      // isComposing: Enter then chooses a word of the input method.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    $("chat-input").addEventListener("input", () => this.refresh());
    onStop($("chat-stop"), () => this.asking.stop());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.asking.isBusy && !event.defaultPrevented) this.asking.stop();
    });
    const hear = (name, then) => this.store.addEventListener(name, ({ detail }) => then(detail));
    hear("kept", () => this.kept());
    hear("away", ({ message }) => {
      this.isAway = true;
      this.notice(message);
    });
    hear("refused", ({ message }) => this.notice(`This comparison is shown, but not kept. ${message}`));
    hear("reloaded", () => this.show());
    hear("copied", () => this.notice("Another tab has changed this comparison, or deleted it. What a column said since stands in the list of conversations, as one of its own."));
    window.addEventListener("pagehide", () => this.asking.leave());
    document.addEventListener("htmx:before:history:restore", (event) => event.preventDefault());
  }

  // The kept one of this address; the conversation that it is to begin with; or an empty one.
  async begin() {
    const keys = JSON.parse($("compare-columns").textContent);
    try {
      if (keys.length) await this.open(keys);
      else await this.prepare(page.dataset.beginning);
    } catch (error) {
      if (!(error instanceof AwayError)) throw error;
      this.notice(error.message);
    }
    $("chat-input").focus();
  }

  async open(keys) {
    const found = (await Promise.all(keys.map((key) => this.store.get(key)))).filter(Boolean);
    const systems = new Set(found.map(({ params }) => params.system ?? ""));
    const shared = systems.size === 1 ? [...systems][0] : "";
    for (const conversation of found) {
      const { system = "", ...params } = conversation.params;
      if (system !== shared) params.system = system;
      this.put({ ...conversation, params, preselected: conversation.server }).conversation = conversation;
    }
    this.name = found[0]?.name ?? "";
    this.tellAll(shared);
    this.show();
    this.end.settle();
  }

  async prepare(key) {
    const from = key ? await this.store.get(key) : null;
    const { system = "", ...params } = from?.params ?? {};
    const preselected = from?.server || page.dataset.preselected;
    const last = from ? from.messages.findLastIndex(({ role }) => role === "user") : 0;
    for (let count = 0; count < 2; count++) {
      const column = this.put({ ...from, params: { ...params }, preselected: count ? this.other() : preselected });
      column.conversation = this.store.create({}, column.server?.slug ?? "");
      begin(column.conversation, (from?.messages.slice(0, Math.max(0, last)) ?? []).map((message) => ({ ...message, copied: true })));
    }
    this.tellAll(system);
    if (last >= 0 && from) {
      $("chat-input").value = from.messages[last].content;
      this.panel.images.images = pictures(from.messages[last]);
      this.panel.images.draw();
    }
    this.show();
  }

  tellAll(system) {
    $("compare-system").value = system;
    $("compare-told").open = Boolean(system);
  }

  // A ready server that no column asks yet; else that of the first.
  other() {
    const taken = new Set(this.columns.map((column) => column.servers.wanted));
    const { all, wanted } = this.columns[0].servers;
    return all.find(({ isReady, slug }) => isReady && !taken.has(slug))?.slug ?? wanted;
  }

  put(settings) {
    const { params, tools, schema, preselected } = settings;
    const column = new Column({ list: $("chat-servers"), here: page.dataset.here, params, tools, schema, preselected: preselected ?? "" });
    column.addEventListener("change", () => {
      this.panel.heard(column);
      this.refresh();
    });
    column.addEventListener("choose", () => this.panel.choose(column));
    column.addEventListener("open", () => this.panel.open(column));
    column.addEventListener("stop", () => column.controller?.abort());
    column.addEventListener("remove", () => this.remove(column));
    this.columns.push(column);
    return column;
  }

  add() {
    const { params, tools, schema } = structuredClone(this.columns.at(-1).values);
    const column = this.put({ params, tools, schema, preselected: this.other() });
    column.conversation = this.store.create({}, column.server?.slug ?? "");
    begin(column.conversation, this.first.messages);
    this.panel.choose(column);
    this.show();
    column.select.focus();
  }

  remove(column) {
    this.columns.splice(this.columns.indexOf(column), 1);
    if (this.panel.column === column) this.panel.choose(this.columns[0]);
    this.show();
    this.columns.at(-1).select.focus();
  }

  // What all columns are told, or one, is kept as soon as something was said.
  changed() {
    this.settle();
    if (this.hasBegun) this.save();
    this.refresh();
  }

  // What the conversations say of themselves.
  settle() {
    for (const [at, column] of this.columns.entries()) {
      column.tell($("compare-system").value);
      Object.assign(column.conversation, { name: this.name, comparison: this.key, column: at });
    }
  }

  show() {
    if (!this.panel.column) this.panel.choose(this.columns[0]);
    $("chat-name").value = this.name;
    $("compare-heads").replaceChildren(...this.columns.map(({ root }) => root));
    this.titles();
    const count = Math.max(0, ...this.columns.map(({ conversation }) => turnsOf(conversation).length));
    this.turns = Array.from({ length: count }, (_each, at) => this.turn(at));
    $("chat-transcript").replaceChildren(...this.turns.map(({ root }) => root));
    this.turns.slice(0, -1).forEach((turn) => turn.close());
    this.panel.offer(this.columns);
    this.settle();
    this.refresh();
  }

  titles() {
    for (const [at, column] of this.columns.entries()) column.title = TITLES[at];
    for (const place of [$("compare-heads"), page]) place.dataset.columns = this.columns.length;
  }

  turn(at) {
    const turn = new Turn(at, this.columns, (column) => ({
      regenerate: () => this.regenerate(column),
      respond: (_answer, results) => this.respond(column, results),
      versionsOf: (message) => versionsView(column.conversation, message, (step) => this.change(column, message, step)),
    }));
    turn.onDraw = () => this.end.follow();
    return turn;
  }

  refresh() {
    if (!this.turns || !this.columns.every(({ conversation, title }) => conversation && title)) return; // the servers speak first
    const isRunning = this.asking.isBusy;
    const { columns } = this;
    for (const column of columns) {
      const isShown = column === this.panel.column;
      column.draw({ title: column.title, isShown, isOnly: columns.length < 3, isRunning, hasBegun: this.hasBegun });
    }
    const faulty = columns.find(({ problem }) => problem);
    const problem = faulty ? `Column ${faulty.title}: ${faulty.problem}` : columns.some(({ servers }) => servers.chosen) ? "" : "No server of these columns is ready.";
    $("chat-hint").textContent = problem;
    $("compare-told-badge").textContent = $("compare-system").value.trim() ? "set" : "";
    $("compare-add").hidden = this.hasBegun || columns.length >= Number(page.dataset.most);
    $("chat-send").hidden = isRunning;
    $("chat-stop").hidden = !isRunning;
    const isEmpty = !($("chat-input").value.trim() || this.panel.images.images.length);
    $("chat-send").disabled = Boolean(problem) || isEmpty;
    this.remark();
    this.invite();
    this.menus.refresh();
  }

  // What stands where nothing has been said yet.
  invite() {
    $("chat-empty").hidden = this.turns.length > 0;
    if (this.turns.length) return;
    const ready = this.columns.some(({ servers }) => servers.chosen);
    const words = "One question goes to all columns. A column’s letter shows its parameters. Enter sends, Shift+Enter makes a new line, Esc stops.";
    $("chat-empty").replaceChildren(...(ready ? [element("p", "", words)] : emptyState(this.columns[0].servers, page.dataset.dashboard)));
  }

  // Columns that share an engine share its speed, and those that are the same compare nothing.
  remark() {
    const bySlug = Map.groupBy(this.columns.filter(({ server }) => server), ({ server }) => server.slug);
    const sharing = [...bySlug].filter(([, columns]) => columns.length > 1);
    const words = sharing.map(([slug, columns]) => {
      const titles = columns.map(({ title }) => title);
      const names = `${titles.slice(0, -1).join(", ")} and ${titles.at(-1)}`;
      const isSame = new Set(columns.map(({ summary, params }) => summary + JSON.stringify(params))).size < columns.length;
      if (isSame && !this.hasBegun) return `${names} ask ${slug} with the same parameters. Change one: its letter shows them.`;
      return $("compare-order").value ? "" : `${names} ask ${slug} at the same time, so that each is slower than alone.`;
    });
    $("compare-shared").textContent = words.filter(Boolean).join(" ");
    $("compare-shared").hidden = !$("compare-shared").textContent;
  }

  send() {
    const input = $("chat-input");
    if ($("chat-send").disabled || this.asking.isBusy) return;
    const faulty = this.panel.readAll(this.columns);
    if (faulty) {
      this.panel.open(faulty);
      this.refresh();
      return;
    }
    const images = this.panel.images.give();
    const question = { role: "user", content: input.value, ...(images.length ? { images } : {}) };
    input.value = "";
    this.turns.at(-1)?.close();
    for (const { conversation } of this.columns) follow(conversation, { ...question });
    const answers = this.columns.map((column) => [column, column.expect()]);
    const turn = this.turn(this.turns.length);
    this.turns.push(turn);
    $("chat-transcript").append(turn.root);
    this.ask(turn, answers);
  }

  // The last answer of this column anew; the others stay.
  regenerate(column) {
    if (!this.mayAsk(column)) return;
    const { messages } = column.conversation;
    const last = messages.at(-1);
    messages.length = messages.findLastIndex(({ role }) => role === "user") + 1;
    if (last.role === "assistant") forgetEmpty(column.conversation, last);
    this.again(column);
  }

  // Another version of what this column says to the last question.
  change(column, message, step) {
    if (this.asking.isBusy) {
      this.notice("Answers are arriving. Stop them first.");
      return;
    }
    const next = change(column.conversation, message, step);
    const turn = this.turns.at(-1);
    turn.draw(column);
    turn.views.get(next).root.querySelector(".versions button:not(:disabled)")?.focus();
    this.store.save(column.conversation);
  }

  // What the tools have answered that the last answer of this column called.
  respond(column, results) {
    if (!this.mayAsk(column)) return;
    const { messages } = column.conversation;
    messages.length = messages.findLastIndex(({ role, calls }) => role === "assistant" && calls.some(Boolean)) + 1;
    for (const result of results) follow(column.conversation, result);
    this.again(column);
  }

  mayAsk(column) {
    const problem = this.asking.isBusy ? "Answers are arriving. Stop them first." : column.servers.problem || this.panel.readAll(this.columns)?.problem;
    this.notice(problem);
    return !problem;
  }

  again(column) {
    const turn = this.turns.at(-1);
    const answers = [[column, column.expect()]];
    turn.draw(column);
    this.ask(turn, answers);
  }

  async ask(turn, answers) {
    this.settle();
    this.notice();
    this.save();
    this.end.follow(true);
    const asked = answers.filter(([, message]) => message.running);
    this.say(`${asked.length} of ${answers.length} columns are being asked.`);
    await this.asking.ask(turn, asked, Boolean($("compare-order").value));
    this.end.rest();
    this.say(answers.map(([column, message]) => `${column.title}: ${outcome(message)}`).join(" "));
  }

  save() {
    for (const { conversation } of this.columns) this.store.save(conversation);
  }

  kept() {
    const path = `${page.dataset.address}${this.key}/`;
    if (location.pathname !== path) window.history.replaceState(null, "", path);
    if (this.isAway) this.notice();
    this.isAway = false;
  }

  notice(text = "") {
    $("chat-notice").textContent = text;
    $("chat-notice").hidden = !text;
  }

  // For screen readers: the beginning and the end of the answers, not each token.
  say(text) {
    $("chat-status").textContent = text;
  }
}

$("chat-params").open = window.matchMedia("(min-width: 60.01rem)").matches;
new Compare();

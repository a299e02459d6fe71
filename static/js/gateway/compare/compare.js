// @ts-check
// Two to four columns that are asked the same, side by side: puts columns, parameters and turns
// together.

import { Composer } from "../chat/composer.js";
import { CsrfToken, element, keepFocus } from "../../page/dom.js";
import { emptyState } from "../chat/servers.js";
import { End } from "../chat/end.js";
import { Images } from "../chat/images.js";
import { Menus } from "../chat/menu.js";
import { isSet } from "../chat/settings.js";
import { newKey } from "../chat/key.js";
import { AwayError, Store, newQuestion } from "../chat/store.js";
import { begin, follow, forgetEmpty } from "../chat/versions.js";
import { Column } from "./column.js";
import { ColumnPanel } from "./panel.js";
import { TITLES } from "./titles.js";
import { PartError, fetchPart, quietly } from "../../page/fetch-part.js";
import { byId, partsOf, told } from "../../page/parts.js";

/** @import { Asking, Pair } from "./asking.js" */
/** @import { Talk } from "./column.js" */
/** @import { Turn } from "./turns.js" */

// The parts of a comparison's page.
const page = byId("compare", HTMLElement);
const $ = partsOf({
  "chat-composer": HTMLFormElement,
  "chat-empty": HTMLElement,
  "chat-attach": HTMLElement,
  "chat-files": HTMLInputElement,
  "chat-input": HTMLElement,
  "chat-middle": HTMLElement,
  "chat-name": HTMLInputElement,
  "chat-newest": HTMLElement,
  "chat-notice": HTMLElement,
  "chat-pictures": HTMLElement,
  "chat-pictures-note": HTMLElement,
  "chat-servers": HTMLElement,
  "chat-status": HTMLElement,
  "chat-transcript": HTMLElement,
  "compare-add": HTMLElement,
  "compare-heads": HTMLElement,
  "compare-order": HTMLSelectElement,
  "compare-shared": HTMLElement,
  "compare-system": HTMLTextAreaElement,
  "compare-told": HTMLDetailsElement,
  "compare-told-badge": HTMLElement,
});

/** @typedef {Partial<Chat.Settings> & {preselected?: string | undefined}} Settings */

class Compare {
  name = "";
  /** @type {Column[]} */
  columns = [];
  /** @type {Turn<Column>[]} */
  turns = [];
  isAway = false;
  isPreparing = false;
  /** @type {Talk | null} */
  talk = null;
  /** @type {Asking | null} */
  asking = null;

  constructor() {
    this.csrf = new CsrfToken(page, $("chat-composer"));
    this.key = page.dataset.comparison || newKey();
    this.composer = new Composer({
      send: () => quietly(this.send()),
      stop: () => {
        this.isPreparing = false;
        this.asking?.stop();
      },
      typed: () => {
        this.refresh();
        import("./talk.js").catch(() => {}); // what is not had now is asked for again, and missed, then
      },
      unsent: `compare.${page.dataset.user}`,
      about: page.dataset.comparison,
    });
    this.store = new Store({ user: page.dataset.user ?? "", url: page.dataset.conversations ?? "", csrf: this.csrf });
    this.panel = new ColumnPanel({ csrf: this.csrf, presets: page.dataset.presets, place: page });
    this.images = new Images({
      input: $("chat-files"), choose: $("chat-attach"), list: $("chat-pictures"), area: $("chat-input"), drop: $("chat-middle"), note: $("chat-pictures-note"),
    });
    this.end = new End($("chat-transcript"), $("chat-newest"));
    this.menus = new Menus({
      store: this.store,
      current: () => this.first,
      columns: () => this.columns,
      asked: () => ({ base: `${location.origin}/v1`, params: this.columns[0]?.request ?? {}, model: this.columns[0]?.server?.model ?? "" }),
      say: (text) => this.notice(text),
    });
    this.listen();
    this.begin();
  }

  // What stands for all of it: the first column's conversation.
  get first() {
    return this.columns[0]?.conversation ?? this.store.create({}, "");
  }

  get isBusy() {
    return this.asking?.isBusy ?? false;
  }

  get hasBegun() {
    return this.turns.some((turn) => !turn.isCopied);
  }

  listen() {
    this.panel.addEventListener("edit", () => this.changed());
    for (const name of ["choose", "refresh"]) this.panel.addEventListener(name, () => this.refresh());
    this.images.addEventListener("change", () => this.refresh());
    $("compare-system").addEventListener("input", () => this.changed());
    $("compare-order").addEventListener("change", () => this.refresh());
    $("compare-add").addEventListener("click", () => this.add());
    $("chat-name").addEventListener("change", () => {
      this.name = $("chat-name").value.trim();
      this.changed();
    });
    const { store } = this;
    store.on("kept", () => this.kept());
    store.on("away", ({ message }) => {
      this.isAway = true;
      this.notice(message);
    });
    store.on("refused", ({ message }) => this.notice(`This comparison is shown, but not kept. ${message}`));
    store.on("reloaded", () => this.show());
    store.on("copied", () => this.notice("Another tab has changed this comparison, or deleted it. What a column said since stands in the list of conversations, as one of its own."));
    window.addEventListener("pagehide", () => this.asking?.leave());
    document.addEventListener("htmx:before:history:restore", (event) => event.preventDefault());
  }

  // The kept one of this address; the conversation that it is to begin with; or an empty one.
  async begin() {
    /** @type {string[]} */
    const keys = told("compare-columns");
    try {
      if (keys.length) await this.open(keys);
      else await this.prepare(page.dataset.beginning);
    } catch (error) {
      if (!(error instanceof AwayError || error instanceof PartError)) throw error;
      this.notice(error.message);
    }
    this.composer.focus();
  }

  // What shows and asks, once something is said: it stays then.
  async talking() {
    if (this.talk) return this.talk;
    const [talk] = await Promise.all([fetchPart("shows answers", () => import("./talk.js")), this.store.load()]);
    if (!this.asking) {
      this.asking = new talk.Asking({ url: page.dataset.url ?? "", csrf: this.csrf, store: this.store });
      this.asking.addEventListener("change", () => this.refresh());
    }
    this.talk = talk;
    return talk;
  }

  /** @param {string[]} keys */
  async open(keys) {
    const found = (await Promise.all(keys.map((key) => this.store.get(key)))).filter(Boolean);
    await this.talking();
    const systems = new Set(found.map(({ params }) => params.system ?? ""));
    const shared = systems.size === 1 ? ([...systems][0] ?? "") : "";
    for (const conversation of found) {
      const { system = "", ...others } = conversation.params;
      const params = system === shared ? others : { ...others, system };
      this.put({ ...conversation, params, preselected: conversation.server }, conversation);
    }
    this.name = found[0]?.name ?? "";
    this.tellAll(shared);
    this.show();
    this.end.settle();
  }

  /** @param {string | undefined} key */
  async prepare(key) {
    const from = key ? await this.store.get(key) : null;
    if (from?.messages.length) await this.talking();
    const { system = "", ...params } = from?.params ?? {};
    const preselected = page.dataset.preselected || from?.server;
    const last = from ? from.messages.findLastIndex(({ role }) => role === "user") : 0;
    for (let count = 0; count < 2; count++) {
      const column = this.fresh({ ...from, params: { ...params }, preselected: count ? this.other() : preselected });
      begin(column.conversation, (from?.messages.slice(0, Math.max(0, last)) ?? []).map((message) => ({ ...message, copied: true })));
    }
    this.tellAll(system);
    const question = from?.messages[last];
    if (question?.role === "user") {
      this.composer.input.value = question.content;
      this.images.images = (await this.talking()).attached(question);
      this.images.draw();
    }
    this.show();
  }

  /** @param {string} system */
  tellAll(system) {
    $("compare-system").value = system;
    $("compare-told").open = Boolean(system);
  }

  // A ready server that no column asks yet; else that of the first.
  other() {
    const taken = new Set(this.columns.map((column) => column.servers.wanted));
    const servers = this.columns[0]?.servers;
    return servers?.all.find(({ isReady, slug }) => isReady && !taken.has(slug))?.slug ?? servers?.wanted;
  }

  /** @param {Settings} settings @param {Chat.Conversation} conversation */
  put({ params, tools, schema, preselected = "" }, conversation) {
    const here = page.dataset.here ?? "";
    const column = new Column({ list: $("chat-servers"), here, preselected, conversation, params, tools, schema });
    column.addEventListener("change", () => {
      this.panel.heard(column);
      this.refresh();
    });
    column.addEventListener("choose", () => this.panel.choose(column));
    column.addEventListener("open", () => this.panel.open(column));
    column.addEventListener("stop", () => column.controller?.abort());
    column.addEventListener("remove", () => this.remove(column));
    this.columns.push(column);
    if (isSet(column)) quietly(this.readAll());
    return column;
  }

  async readAll() {
    await this.panel.readAll(this.columns);
    this.refresh();
  }

  // One in which nothing has been said.
  /** @param {Settings} settings */
  fresh(settings) {
    const column = this.put(settings, this.store.create({}, ""));
    column.conversation.server = column.server?.slug ?? "";
    return column;
  }

  add() {
    const column = this.fresh({ ...structuredClone(this.columns.at(-1)?.values), preselected: this.other() });
    begin(column.conversation, this.first.messages);
    this.panel.choose(column);
    this.show();
    column.picker.button.focus();
  }

  /** @param {Column} column */
  remove(column) {
    this.columns.splice(this.columns.indexOf(column), 1);
    const [first] = this.columns;
    if (first && this.panel.column === column) this.panel.choose(first);
    this.show();
    this.columns.at(-1)?.picker.button.focus();
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
    if (!this.panel.column && this.columns[0]) this.panel.choose(this.columns[0]);
    $("chat-name").value = this.name;
    $("compare-heads").replaceChildren(...this.columns.map(({ root }) => root));
    this.titles();
    const { talk } = this;
    const count = talk ? Math.max(0, ...this.columns.map(({ conversation }) => talk.turnsOf(conversation).length)) : 0;
    this.turns = Array.from({ length: count }, (_each, at) => this.turn(at));
    $("chat-transcript").replaceChildren(...this.turns.map(({ root }) => root));
    for (const turn of this.turns.slice(0, -1)) turn.close();
    this.panel.offer(this.columns);
    this.settle();
    this.refresh();
  }

  titles() {
    for (const [at, column] of this.columns.entries()) column.title = TITLES.charAt(at);
    for (const place of [$("compare-heads"), page]) place.dataset.columns = String(this.columns.length);
  }

  /** @param {number} at */
  turn(at) {
    const { talk } = this;
    if (!talk) throw new TypeError("Answers are to be shown before what shows them has come.");
    const turn = new talk.Turn(at, this.columns, (/** @type {Column} */ column) => ({
      regenerate: () => quietly(this.regenerate(column)),
      respond: (_answer, results) => quietly(this.respond(column, results)),
      versionsOf: (message) => talk.versionsView(column.conversation, message, (step) => this.change(column, message, step)),
    }));
    turn.onDraw = () => this.end.follow();
    return turn;
  }

  refresh() {
    if (!this.columns.every(({ title }) => title)) return; // the servers speak first
    const { isBusy: isRunning } = this;
    const { columns } = this;
    for (const column of columns) {
      const isShown = column === this.panel.column;
      column.draw({ title: column.title, isShown, isOnly: columns.length < 3, isRunning, hasBegun: this.hasBegun });
    }
    const faulty = columns.find(({ problem }) => problem);
    const problem = faulty ? `Column ${faulty.title}: ${faulty.problem}` : columns.some(({ servers }) => servers.chosen) ? "" : "No server of these columns is ready.";
    $("compare-told-badge").textContent = $("compare-system").value.trim() ? "set" : "";
    $("compare-add").hidden = this.hasBegun || columns.length >= Number(page.dataset.most);
    const hasPictures = this.images.images.length > 0;
    this.composer.draw({ hint: problem, isRunning: isRunning || this.isPreparing, mayNot: Boolean(problem), hasPictures });
    this.remark();
    this.invite();
    this.menus.refresh();
  }

  // What stands where nothing has been said yet.
  invite() {
    $("chat-empty").hidden = this.turns.length > 0;
    if (this.turns.length) return;
    const ready = this.columns.some(({ servers }) => servers.chosen);
    const words = [element("h2", "", "Ask all columns"), element("p", "quiet", "One question, side by side. A column’s letter opens its parameters.")];
    $("chat-empty").replaceChildren(...(ready || !this.columns[0] ? words : emptyState(this.columns[0].servers, page.dataset.dashboard ?? "")));
  }

  // Columns that share an engine share its speed, and those that are the same compare nothing.
  remark() {
    const bySlug = Map.groupBy(this.columns, ({ server }) => server?.slug ?? "");
    const sharing = [...bySlug].filter(([slug, columns]) => slug && columns.length > 1);
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

  // Have what shows answers and what checks parameters: the column that is at fault, or null where
  // somebody has stopped it meanwhile. What was typed stays.
  async loadParts() {
    this.isPreparing = true;
    keepFocus(() => this.refresh());
    try {
      await this.talking();
      const faulty = await this.panel.readAll(this.columns);
      return this.isPreparing ? faulty : null;
    } finally {
      this.isPreparing = false;
      this.refresh();
    }
  }

  async send() {
    if (!this.composer.maySend || this.isBusy || this.isPreparing) return;
    const faulty = await this.loadParts();
    if (faulty === null || !this.composer.maySend) return;
    if (faulty) {
      this.panel.open(faulty);
      this.refresh();
      return;
    }
    const question = newQuestion(this.composer.give(), this.images.give());
    this.composer.rename(this.key);
    this.turns.at(-1)?.close();
    for (const { conversation } of this.columns) follow(conversation, { ...question });
    /** @type {Pair[]} */
    const answers = this.columns.map((column) => [column, column.expect()]);
    const turn = this.turn(this.turns.length);
    this.turns.push(turn);
    $("chat-transcript").append(turn.root);
    await this.ask(turn, answers);
  }

  // The last answer of this column anew; the others stay.
  /** @param {Column} column */
  async regenerate(column) {
    if (!(await this.mayAsk(column))) return;
    const { messages } = column.conversation;
    const last = messages.at(-1);
    messages.length = messages.findLastIndex(({ role }) => role === "user") + 1;
    if (last?.role === "assistant") forgetEmpty(column.conversation, last);
    this.again(column);
  }

  // Another version of what this column says to the last question.
  /** @param {Column} column @param {Chat.Message} message @param {1 | -1} step */
  change(column, message, step) {
    if (this.isBusy) {
      this.notice("Answers are arriving. Stop them first.");
      return;
    }
    const next = this.talk?.change(column.conversation, message, step) ?? message;
    const turn = this.turns.at(-1);
    turn?.draw(column);
    /** @type {HTMLElement | null | undefined} */
    const way = turn?.views.get(next)?.root.querySelector(".versions button:not(:disabled)");
    way?.focus();
    this.store.save(column.conversation);
  }

  // What the tools have answered that the last answer of this column called.
  /** @param {Column} column @param {Chat.Result[]} results */
  async respond(column, results) {
    if (!(await this.mayAsk(column))) return;
    const { messages } = column.conversation;
    messages.length = messages.findLastIndex((each) => each.role === "assistant" && each.calls.some(Boolean)) + 1;
    for (const result of results) follow(column.conversation, result);
    this.again(column);
  }

  /** @param {Column} column */
  async mayAsk(column) {
    const faulty = await this.panel.readAll(this.columns);
    const problem = this.isBusy ? "Answers are arriving. Stop them first." : column.servers.problem || faulty?.problem;
    this.notice(problem);
    return !problem;
  }

  /** @param {Column} column */
  again(column) {
    const turn = this.turns.at(-1);
    if (!turn) return;
    const message = column.expect();
    turn.draw(column);
    quietly(this.ask(turn, [[column, message]]));
  }

  /** @param {Turn<Column>} turn @param {Pair[]} answers */
  async ask(turn, answers) {
    this.settle();
    this.notice();
    this.save();
    this.end.follow(true);
    const asked = answers.filter(([, message]) => message.running);
    this.say(`${asked.length} of ${answers.length} columns are being asked.`);
    const talk = await this.talking();
    await this.asking?.ask(talk, turn, asked, Boolean($("compare-order").value));
    this.end.rest();
    this.say(answers.map(([column, message]) => `${column.title}: ${talk.outcome(message)}`).join(" "));
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

  /** @param {string} [text] */
  notice(text = "") {
    $("chat-notice").textContent = text;
    $("chat-notice").hidden = !text;
  }

  // For screen readers: the beginning and the end of the answers, not each token.
  /** @param {string} text */
  say(text) {
    $("chat-status").textContent = text;
  }
}

new Compare();

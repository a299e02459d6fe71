// @ts-check
// The playground: puts conversation, servers and parameters together.

import { outcome, receive } from "./answering.js";
import { Beside } from "./sidebar.js";
import { Composer } from "./composer.js";
import { CsrfToken, keepFocus } from "../../page/dom.js";
import { emptyState, Servers, Standing } from "./servers.js";
import { End, Transcript } from "./transcript.js";
import { Menus } from "./menu.js";
import { button, viewOf } from "./message.js";
import { $, hear, idInAddress, page, putInAddress } from "./page.js";
import { Parameters } from "./params.js";
import { Presets } from "./presets.js";
import { List } from "./list.js";
import { newKey } from "./save.js";
import { AwayError, Store, isArriving, newAnswer, newQuestion, titleOf } from "./store.js";
import { asked, history, resultsOf } from "./request.js";
import { follow, forgetEmpty, turn, versionsView } from "./versions.js";

const LOOK_AGAIN = 3000; // ms, while another tab receives one

/** @typedef {{conversation: Chat.Conversation, message: Chat.Answer, controller: AbortController, isRemoved: boolean}} Running */

export class Chat {
  /** @type {Running | null} */
  running = null;
  isLeaving = false;
  isAway = false;
  wanted = ""; // the conversation that is to be shown: somebody may click on another one meanwhile
  watching = 0; // timers
  looking = 0;

  constructor() {
    this.csrf = new CsrfToken(page, $("chat-composer"));
    this.store = new Store({ user: page.dataset.user ?? "", url: page.dataset.conversations ?? "", csrf: this.csrf });
    this.composer = new Composer({
      send: () => this.send(),
      stop: () => this.stop(),
      typed: () => this.refresh(),
      last: (event) => this.editLast(event),
      unsent: `chat.${page.dataset.user}`,
      about: page.dataset.conversation,
    });
    this.parameters = new Parameters($("chat-params-form"));
    this.servers = new Servers({
      list: $("chat-servers"),
      select: $("chat-server"),
      here: page.dataset.here ?? "",
      preselected: page.dataset.preselected ?? "",
    });
    this.beside = new Beside({ parameters: this.parameters, servers: this.servers, csrf: this.csrf });
    this.end = new End($("chat-transcript"));
    this.transcript = new Transcript($("chat-transcript"), (message) => this.view(message));
    this.list = new List({
      store: this.store,
      list: $("chat-conversations"),
      search: $("chat-search"),
      more: $("chat-older"),
      compared: page.dataset.compare,
      open: (id) => this.go(id),
      remove: (id, title) => this.remove(id, title),
    });
    new Standing({ root: $("chat-standings"), servers: this.servers });
    this.menus = new Menus({
      share: $("chat-share"),
      files: $("chat-files-menu"),
      compare: $("chat-compare"),
      server: () => this.servers.wanted,
      store: this.store,
      current: () => this.conversation,
      asked: () => ({ base: `${location.origin}/v1`, params: this.beside.request, model: this.servers.find(this.servers.wanted)?.model ?? "" }),
      say: (text) => this.notice(text),
    });
    this.presets = new Presets({
      root: $("chat-presets"),
      url: page.dataset.presets,
      csrf: this.csrf,
      servers: this.servers,
      now: () => ({ params: this.parameters.values, ...this.beside.values }),
    });
    this.conversation = this.store.create({}, this.servers.wanted, this.beside.values);
    this.listen();
    hear(this);
    this.show(this.conversation);
    if (page.dataset.conversation) this.arrive(page.dataset.conversation);
    else this.composer.focus();
    this.store.ready.then(() => this.list.load());
  }

  listen() {
    this.servers.addEventListener("change", () => this.refresh());
    this.parameters.addEventListener("change", () => {
      this.conversation.params = this.parameters.values;
      if (this.conversation.messages.length) this.save();
      this.refresh();
    });
    this.beside.addEventListener("change", () => {
      Object.assign(this.conversation, this.beside.values);
      if (this.conversation.messages.length) this.save();
      this.refresh();
    });
    this.beside.addEventListener("refresh", () => this.refresh());
    this.presets.picks((detail) => {
      this.parameters.values = detail.params;
      this.beside.open(detail);
      Object.assign(this.conversation, detail);
      if (this.conversation.messages.length) this.save();
      this.refresh();
    });
    $("chat-new").addEventListener("click", () => this.begin());
    $("chat-name").addEventListener("change", () => {
      this.conversation.name = $("chat-name").value.trim();
      if (this.conversation.messages.length) this.save();
      this.list.put(this.conversation, true);
    });
    window.addEventListener("pagehide", () => this.leave());
    // Else htmx fetches the page anew into this one, whose scripts know nothing of it.
    document.addEventListener("htmx:before:history:restore", (event) => event.preventDefault());
    window.addEventListener("popstate", () => this.arrive(idInAddress()));
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.lookAgain());
    // Comes before the answer's connection is cut. A download link fires it too, and stays.
    window.addEventListener("beforeunload", () => {
      this.isLeaving = true;
      setTimeout(() => (this.isLeaving = false), 2000);
    });
  }

  // Other tabs and browsers may have kept something since.
  /** @param {string} [id] */
  async lookAgain(id) {
    await this.list.load();
    const mine = this.conversation;
    const listed = this.list.revisionOf(mine.id);
    if ((id && id !== mine.id) || (listed && this.store.knows(mine.id, listed))) return;
    if (this.running || this.store.isBusy(mine.id) || !mine.messages.length) return;
    const now = await this.store.get(mine.id).catch((error) => void away(error));
    if (!now || this.conversation !== mine || this.running) return;
    this.showAgain(now);
  }

  // The same conversation as it is now, where somebody may be reading it.
  /** @param {Chat.Conversation} conversation */
  showAgain(conversation) {
    const { isNear } = this.end;
    const place = document.documentElement.scrollTop;
    this.show(conversation);
    if (isNear) this.end.settle();
    else document.documentElement.scrollTop = place;
  }

  fresh() {
    return this.store.create(this.conversation.params, this.servers.wanted, this.beside.values);
  }

  begin() {
    this.composer.turn("");
    this.show(this.fresh());
    putInAddress("", false);
    this.composer.focus();
  }

  // Open it, and let its address stand in the browser's.
  /** @param {string} id */
  async go(id) {
    await this.arrive(id, () => putInAddress(id, false));
  }

  // Open the conversation of this address; "" is a new one.
  /** @param {string} id @param {() => void} [then] */
  async arrive(id, then = () => {}) {
    if (!id) {
      this.composer.turn("");
      this.show(this.fresh());
      return;
    }
    this.wanted = id;
    try {
      const found = this.running?.conversation.id === id ? this.running.conversation : await this.store.get(id);
      if (this.wanted !== id) return;
      if (found) {
        this.composer.turn(id);
        this.show(found, true);
        then();
      } else {
        this.list.drop(id);
        this.notice("This conversation was deleted.");
      }
    } catch (error) {
      this.notice(away(error));
    }
  }

  /** @param {Chat.Conversation} conversation @param {boolean} [toEnd] */
  show(conversation, toEnd = false) {
    this.wanted = conversation.id;
    this.conversation = conversation;
    this.parameters.values = conversation.params;
    this.beside.open(conversation);
    if (!page.dataset.preselected || conversation.messages.length) this.servers.prefer(conversation.server);
    $("chat-name").value = conversation.name;
    this.notice();
    this.transcript.show(conversation.messages);
    this.list.put(conversation, true);
    this.refresh();
    if (toEnd) this.end.settle();
    clearTimeout(this.watching);
    if (conversation.elsewhere) this.watching = setTimeout(() => this.lookAgain(conversation.id), LOOK_AGAIN);
  }

  /** @param {Chat.Message} message */
  view(message) {
    const { conversation } = this;
    const view = viewOf(message, {
      resend: (question, text, images) => this.resend(question, text, images),
      regenerate: (answer) => this.regenerate(answer),
      respond: (answer, results) => this.respond(answer, results),
      versions: () => versionsView(conversation, message, (step) => turn(this, message, step)),
      asked: () => asked(conversation, message),
      results: () => resultsOf(conversation.messages, conversation.messages.indexOf(message)),
      hint: (key, answer) => (answer.server === this.servers.wanted ? this.beside.abilities.remark(key) : ""),
    });
    view.onDraw = () => this.end.follow();
    return view;
  }

  /** @param {string} id @param {string} title */
  async remove(id, title) {
    if (this.running?.conversation.id === id) {
      this.stop();
      this.running.isRemoved = true;
    }
    const held = this.conversation.id === id ? this.conversation : null;
    try {
      await this.store.remove(id);
    } catch (error) {
      this.notice(away(error));
      return;
    }
    this.list.drop(id);
    if (held) this.begin();
    if (held && !held.messages.length) return;
    this.notice(`Deleted “${title}”. `, button("Undo", "", () => this.undo(id)));
  }

  /** @param {string} id */
  async undo(id) {
    this.notice();
    try {
      await this.store.restore(id);
      await Promise.all([this.go(id), this.list.load()]);
    } catch (error) {
      this.notice(away(error));
    }
  }

  /** @param {string} [text] @param {...HTMLElement} more */
  notice(text = "", ...more) {
    $("chat-notice").replaceChildren(text, ...more);
    $("chat-notice").hidden = !text;
  }

  // What the composer, the empty state and the hints say now.
  refresh() {
    const problem = this.servers.problem || this.beside.problem;
    const { running } = this;
    const hint = running && running.conversation !== this.conversation
      ? `“${titleOf(running.conversation)}” is being answered. Stop it to ask something here.`
      : this.conversation.elsewhere ? "An answer is arriving in another tab." : problem;
    const mayNot = Boolean(problem || this.conversation.elsewhere);
    this.composer.draw({ hint, isRunning: running !== null, mayNot, hasPictures: this.beside.images.images.length > 0 });
    this.menus.refresh();
    $("chat-empty").hidden = this.conversation.messages.length > 0;
    if (!$("chat-empty").hidden) $("chat-empty").replaceChildren(...emptyState(this.servers, page.dataset.dashboard ?? ""));
    this.takeUp();
  }

  // The answer of this conversation that goes on in the server, if there is one.
  takeUp() {
    const last = this.conversation.messages.at(-1);
    if (!this.running && isArriving(last)) this.receive(last, null);
  }

  send() {
    if (!this.composer.maySend || this.running) return;
    this.add(newQuestion(this.composer.give(), this.beside.images.give()));
    this.answer();
  }

  /** @param {Chat.Question} earlier @param {string} text @param {Chat.Picture[]} images */
  resend(earlier, text, images) {
    if (!this.mayAsk()) return;
    keepFocus(() => this.cut(earlier));
    this.add(newQuestion(text, images));
    this.answer();
  }

  /** @param {Chat.Answer} answer */
  regenerate(answer) {
    if (!this.mayAsk()) return;
    keepFocus(() => this.cut(answer));
    forgetEmpty(this.conversation, answer);
    this.answer();
  }

  // What the tools have answered that this answer called.
  /** @param {Chat.Answer} answer @param {Chat.Result[]} results */
  respond(answer, results) {
    if (!this.mayAsk()) return;
    const { messages } = this.conversation;
    const next = messages[messages.indexOf(answer) + 1];
    if (next) this.cut(next);
    for (const result of results) this.add(result);
    keepFocus(() => this.transcript.get(answer)?.finish?.());
    this.answer();
  }

  // This message and all after it are shown no more: what is said next is another version.
  /** @param {Chat.Message} message */
  cut(message) {
    this.conversation.messages.length = this.conversation.messages.indexOf(message);
    this.transcript.cut(this.conversation.messages.length);
  }

  // Up in an empty composer: the last question again.
  /** @param {KeyboardEvent} event */
  editLast(event) {
    const last = this.conversation.messages.findLast(({ role }) => role === "user");
    const view = last && this.transcript.get(last);
    if (!view || this.running) return;
    event.preventDefault();
    view.edit?.();
  }

  mayAsk() {
    const problem = this.running ? "An answer is arriving. Stop it first." : this.servers.problem || this.beside.problem;
    this.notice(problem);
    return !problem;
  }

  /** @param {Chat.Message} message */
  add(message) {
    follow(this.conversation, message);
    this.transcript.append(message);
  }

  async answer() {
    const { conversation, servers, beside } = this;
    const server = servers.chosen;
    if (!server) return;
    const message = newAnswer(server);
    const answer = newKey();
    message.key = `${conversation.id}/${answer}`;
    const body = { run: server.run, messages: history(conversation), params: beside.request, conversation: conversation.id, answer };
    conversation.server = server.slug;
    this.composer.rename(conversation.id);
    const receiving = this.receive(message, body);
    this.add(message);
    this.notice();
    this.save();
    this.list.put(conversation);
    keepFocus(() => this.refresh());
    this.end.follow(true);
    await receiving;
  }

  // Fill the answer as it arrives: asked for by this body, or taken up again without one.
  /** @param {Chat.Answer} message @param {Chat.Body | null} body */
  async receive(message, body) {
    const { conversation } = this;
    const running = { conversation, message, controller: new AbortController(), isRemoved: false };
    this.running = running;
    if (!body) keepFocus(() => this.refresh());
    this.say(`${message.server} is answering.`);
    await receive({
      url: page.dataset.url ?? "",
      answers: page.dataset.answers,
      csrf: this.csrf,
      body,
      signal: running.controller.signal,
      message,
      view: () => this.transcript.get(message),
      // Who takes it up keeps it when it is whole: until then the server has it, and who asked keeps it.
      keep: () => running.isRemoved || !body || this.save(conversation, message),
      isLeaving: () => this.isLeaving,
    });
    message.running = false;
    this.running = null;
    if (!running.isRemoved) this.save(conversation);
    this.transcript.get(message)?.finish?.();
    keepFocus(() => this.refresh());
    this.end.rest();
    this.say(outcome(message));
  }

  stop() {
    this.running?.controller.abort();
  }

  // Keep what has changed: in this message alone, or anywhere in the conversation.
  /** @param {Chat.Conversation} [conversation] @param {Chat.Message} [message] */
  save(conversation = this.conversation, message = undefined) {
    this.store.save(conversation, message);
  }

  // The page goes, and its answer goes on in the server.
  leave() {
    this.store.leave(this.running?.conversation);
  }

  // For screen readers: the beginning and the end of an answer, not each token.
  /** @param {string} text */
  say(text) {
    $("chat-status").textContent = text;
  }
}

// What cannot be had now is said where it happens; all else is a fault.
/** @param {unknown} error */
function away(error) {
  if (!(error instanceof AwayError)) throw error;
  return error.message;
}

// Beside the conversation there is room for the sides; above it, on a phone, there is not.
$("chat-params").open = window.matchMedia("(min-width: 48.01rem)").matches;
$("chat-list").open = window.matchMedia("(min-width: 77.01rem)").matches;
new Chat();

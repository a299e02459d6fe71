// The playground: puts conversation, servers and parameters together.

import { outcome, receive } from "./chat-answering.js";
import { Beside } from "./chat-beside.js";
import { CsrfToken, keepFocus, onStop } from "./chat-dom.js";
import { emptyState } from "./chat-empty.js";
import { End } from "./chat-end.js";
import { Menus } from "./chat-menu.js";
import { button, viewOf } from "./chat-message.js";
import { hear } from "./chat-news.js";
import { Parameters } from "./chat-params.js";
import { Presets } from "./chat-presets.js";
import { Servers } from "./chat-servers.js";
import { List } from "./chat-list.js";
import { AwayError, CUT_OFF, Store, newAnswer, titleOf } from "./chat-store.js";
import { asked, history, resultsOf } from "./chat-request.js";
import { Standing } from "./chat-standing.js";
import { Transcript } from "./chat-transcript.js";
import { follow, forgetEmpty, turn, versionsView } from "./chat-versions.js";

const LOOK_AGAIN = 3000; // ms, while another tab receives one

const page = document.getElementById("chat");
const $ = (id) => document.getElementById(id);

class Chat {
  constructor() {
    this.csrf = new CsrfToken(page, $("chat-composer"));
    this.store = new Store({ user: page.dataset.user, url: page.dataset.conversations, csrf: this.csrf });
    this.running = null; // {conversation, message, controller}
    this.parameters = new Parameters($("chat-params-form"));
    this.servers = new Servers({
      list: $("chat-servers"),
      select: $("chat-server"),
      here: page.dataset.here,
      preselected: page.dataset.preselected,
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
    this.listen();
    hear(this);
    this.show(this.fresh());
    if (page.dataset.conversation) this.arrive(page.dataset.conversation);
    else $("chat-input").focus();
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
    this.presets.addEventListener("pick", ({ detail }) => {
      this.parameters.values = detail.params;
      this.beside.open(detail);
      Object.assign(this.conversation, detail);
      if (this.conversation.messages.length) this.save();
      this.refresh();
    });
    $("chat-new").addEventListener("click", () => this.begin());
    $("chat-name").addEventListener("change", (event) => {
      this.conversation.name = event.target.value.trim();
      if (this.conversation.messages.length) this.save();
      this.list.put(this.conversation, true);
    });
    $("chat-composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    $("chat-input").addEventListener("keydown", (event) => {
      if (event.key === "ArrowUp" && !event.target.value && !event.isComposing) this.editLast(event);
      // isComposing: Enter then chooses a word of the input method.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    $("chat-input").addEventListener("input", () => this.refresh());
    onStop($("chat-stop"), () => this.stop());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.running && !event.defaultPrevented) this.stop();
    });
    window.addEventListener("pagehide", () => this.leave());
    // Else htmx fetches the page anew into this one, whose scripts know nothing of it.
    document.addEventListener("htmx:before:history:restore", (event) => event.preventDefault());
    window.addEventListener("popstate", () => this.arrive(idInAddress()));
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.lookAgain());
    // Comes before the answer's connection is cut. A download link fires it too, and stays.
    window.addEventListener("beforeunload", () => {
      this.leaving = true;
      setTimeout(() => (this.leaving = false), 2000);
    });
  }

  // Other tabs and browsers may have kept something since.
  async lookAgain(id) {
    await this.list.load();
    const mine = this.conversation;
    const listed = this.list.revisionOf(mine.id);
    if ((id && id !== mine.id) || (listed && this.store.knows(mine.id, listed))) return;
    if (this.running || this.store.isBusy(mine.id) || !mine.messages.length) return;
    const now = await this.store.get(mine.id).catch(away);
    if (!now || this.conversation !== mine || this.running) return;
    const place = document.documentElement.scrollTop;
    this.show(now);
    document.documentElement.scrollTop = place;
  }

  fresh() {
    return this.store.create(this.conversation?.params ?? {}, this.servers.wanted, this.beside.values);
  }

  begin() {
    this.show(this.fresh());
    this.address("", false);
    $("chat-input").focus();
  }

  // Open it, and let its address stand in the browser's.
  async go(id) {
    await this.arrive(id, () => this.address(id, false));
  }

  // Open the conversation of this address; "" is a new one.
  async arrive(id, then = () => {}) {
    if (!id) {
      this.show(this.fresh());
      return;
    }
    this.wanted = id; // somebody may click on another one before this has come
    try {
      const found = this.running?.conversation.id === id ? this.running.conversation : await this.store.get(id);
      if (this.wanted !== id) return;
      if (found) {
        this.show(found, true);
        then();
      } else {
        this.list.drop(id);
        this.notice("This conversation was deleted.");
      }
    } catch (error) {
      away(error);
      this.notice(error.message);
    }
  }

  address(id, isSame) {
    const path = page.dataset.address + (id ? `${id}/` : "");
    if (location.pathname === path) return;
    window.history[isSame ? "replaceState" : "pushState"](null, "", path);
  }

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

  async remove(id, title) {
    if (this.running?.conversation.id === id) {
      this.stop();
      this.running.isRemoved = true;
    }
    const held = this.conversation.id === id ? this.conversation : null;
    try {
      await this.store.remove(id);
    } catch (error) {
      away(error);
      this.notice(error.message);
      return;
    }
    this.list.drop(id);
    if (held) this.begin();
    if (held && !held.messages.length) return;
    this.notice(`Deleted “${title}”. `, button("Undo", "", () => this.undo(id)));
  }

  async undo(id) {
    this.notice();
    try {
      await this.store.restore(id);
      await Promise.all([this.go(id), this.list.load()]);
    } catch (error) {
      away(error);
      this.notice(error.message);
    }
  }

  notice(text = "", ...more) {
    $("chat-notice").replaceChildren(text, ...more);
    $("chat-notice").hidden = !text;
  }

  // What the composer, the empty state and the hints say now.
  refresh() {
    if (!this.conversation) return; // the servers speak first
    const problem = this.servers.problem || this.beside.problem;
    const elsewhere = this.running && this.running.conversation !== this.conversation;
    $("chat-hint").textContent = elsewhere
      ? `“${titleOf(this.running.conversation)}” is being answered. Stop it to ask something here.`
      : this.conversation.elsewhere ? "An answer is arriving in another tab." : problem;
    $("chat-send").hidden = Boolean(this.running);
    $("chat-stop").hidden = !this.running;
    $("chat-send").disabled = Boolean(problem || this.conversation.elsewhere) || !($("chat-input").value.trim() || this.beside.images.images.length);
    this.menus.refresh();
    $("chat-empty").hidden = this.conversation.messages.length > 0;
    if (!$("chat-empty").hidden) $("chat-empty").replaceChildren(...emptyState(this.servers, page.dataset.dashboard));
  }

  send() {
    const input = $("chat-input");
    if ($("chat-send").disabled || this.running) return;
    this.add(question(input.value, this.beside.images.give()));
    input.value = "";
    this.answer();
  }

  resend(earlier, text, images) {
    if (!this.mayAsk()) return;
    keepFocus(() => this.cut(earlier));
    this.add(question(text, images));
    this.answer();
  }

  regenerate(answer) {
    if (!this.mayAsk()) return;
    keepFocus(() => this.cut(answer));
    forgetEmpty(this.conversation, answer);
    this.answer();
  }

  // What the tools have answered that this answer called.
  respond(answer, results) {
    if (!this.mayAsk()) return;
    const { messages } = this.conversation;
    if (messages.at(-1) !== answer) this.cut(messages[messages.indexOf(answer) + 1]);
    for (const result of results) this.add(result);
    keepFocus(() => this.transcript.get(answer)?.finish());
    this.answer();
  }

  // This message and all after it are shown no more: what is said next is another version.
  cut(message) {
    this.conversation.messages.length = this.conversation.messages.indexOf(message);
    this.transcript.cut(this.conversation.messages.length);
  }

  // Up in an empty composer: the last question again.
  editLast(event) {
    const last = this.conversation.messages.findLast(({ role }) => role === "user");
    const view = last && this.transcript.get(last);
    if (!view || this.running) return;
    event.preventDefault();
    view.edit();
  }

  mayAsk() {
    const problem = this.running ? "An answer is arriving. Stop it first." : this.servers.problem || this.beside.problem;
    this.notice(problem);
    return !problem;
  }

  add(message) {
    follow(this.conversation, message);
    this.transcript.append(message);
  }

  async answer() {
    const { conversation, servers, beside } = this;
    const server = servers.chosen;
    const message = newAnswer(server);
    const body = { run: server.run, messages: history(conversation), params: beside.request };
    conversation.server = server.slug;
    const running = { conversation, message, controller: new AbortController() };
    this.running = running;
    this.add(message);
    this.notice();
    this.save();
    this.list.put(conversation);
    keepFocus(() => this.refresh());
    this.end.follow(true);
    this.say(`${server.slug} is answering.`);
    await receive({
      url: page.dataset.url,
      csrf: this.csrf,
      body,
      signal: running.controller.signal,
      message,
      view: () => this.transcript.get(message),
      keep: () => running.isRemoved || this.save(conversation, message),
      isLeaving: () => this.leaving,
    });
    message.running = false;
    this.running = null;
    if (!running.isRemoved) this.save(conversation);
    this.transcript.get(message)?.finish();
    keepFocus(() => this.refresh());
    this.end.rest();
    this.say(outcome(message));
  }

  stop() {
    this.running?.controller.abort();
  }

  // Keep what has changed: in this message alone, or anywhere in the conversation.
  save(conversation = this.conversation, message = undefined) {
    this.store.save(conversation, message);
  }

  // The page goes, and its answer with it: what has come is kept with the reason.
  leave() {
    if (this.running) {
      this.running.message.running = false;
      this.running.message.error ??= CUT_OFF;
    }
    this.store.leave(this.running?.conversation);
  }

  // For screen readers: the beginning and the end of an answer, not each token.
  say(text) {
    $("chat-status").textContent = text;
  }
}

// What cannot be had now is said where it happens; all else is a fault.
function away(error) {
  if (!(error instanceof AwayError)) throw error;
}

function idInAddress() {
  return location.pathname.slice(page.dataset.address.length).replace("/", "");
}

const question = (text, images) => ({ role: "user", content: text, ...(images?.length ? { images } : {}) });

// Beside the conversation there is room for the sides; above it, on a phone, there is not.
$("chat-params").open = window.matchMedia("(min-width: 48.01rem)").matches;
$("chat-list").open = window.matchMedia("(min-width: 70.01rem)").matches;
new Chat();

// @ts-check
// Questions and answers of the conversation that is shown: sent, asked again, filled as they arrive.

import { keepFocus } from "../../page/dom.js";
import { newKey } from "./key.js";
import { $, page } from "./page.js";
import { isArriving, newAnswer, newQuestion } from "./store.js";
import { follow, forgetEmpty } from "./versions.js";

/** @import { Chat } from "./chat.js" */

/** @typedef {{conversation: Chat.Conversation, message: Chat.Answer, controller: AbortController, isRemoved: boolean}} Running */

export class Exchange {
  /** @type {Running | null} */
  running = null;
  isPreparing = false;
  isLeaving = false;

  /** @param {Chat} chat */
  constructor(chat) {
    this.chat = chat;
    // Comes before the answer's connection is cut. A download link fires it too, and stays.
    window.addEventListener("beforeunload", () => {
      this.isLeaving = true;
      setTimeout(() => (this.isLeaving = false), 2000);
    });
  }

  // Have what shows answers; false where somebody has stopped it meanwhile. What was typed stays.
  async loadParts() {
    this.isPreparing = true;
    keepFocus(() => this.chat.refresh());
    try {
      await this.chat.talking();
      return this.isPreparing;
    } finally {
      this.isPreparing = false;
      this.chat.refresh();
    }
  }

  async send() {
    const { composer, conversation, images } = this.chat;
    if (!composer.maySend || this.running || this.isPreparing) return;
    if (!this.chat.talk && !(await this.loadParts())) return;
    if (!composer.maySend || this.running || conversation !== this.chat.conversation) return;
    this.add(newQuestion(composer.give(), images.give()));
    this.answer();
  }

  /** @param {Chat.Question} earlier @param {string} text @param {Chat.Attached[]} attached */
  resend(earlier, text, attached) {
    if (!this.mayAsk()) return;
    keepFocus(() => this.cut(earlier));
    this.add(newQuestion(text, attached));
    this.answer();
  }

  /** @param {Chat.Answer} answer */
  regenerate(answer) {
    if (!this.mayAsk()) return;
    keepFocus(() => this.cut(answer));
    forgetEmpty(this.chat.conversation, answer);
    this.answer();
  }

  // What the tools have answered that this answer called.
  /** @param {Chat.Answer} answer @param {Chat.Result[]} results */
  respond(answer, results) {
    if (!this.mayAsk()) return;
    const { messages } = this.chat.conversation;
    const next = messages[messages.indexOf(answer) + 1];
    if (next) this.cut(next);
    for (const result of results) this.add(result);
    keepFocus(() => this.chat.transcript?.get(answer)?.finish?.());
    this.answer();
  }

  // This message and all after it are shown no more: what is said next is another version.
  /** @param {Chat.Message} message */
  cut(message) {
    const { conversation, transcript } = this.chat;
    conversation.messages.length = conversation.messages.indexOf(message);
    transcript?.cut(conversation.messages.length);
  }

  mayAsk() {
    const { servers, settings } = this.chat;
    const problem = this.running ? "An answer is arriving. Stop it first." : servers.problem || settings.problem;
    this.chat.notice(problem);
    return !problem;
  }

  /** @param {Chat.Message} message */
  add(message) {
    follow(this.chat.conversation, message);
    this.chat.transcript?.append(message);
  }

  async answer() {
    const { chat } = this;
    const { conversation, servers, settings } = chat;
    const talk = await chat.talking();
    const server = servers.chosen;
    if (!server) return;
    const message = newAnswer(server);
    const answer = newKey();
    message.key = `${conversation.id}/${answer}`;
    const body = { run: server.run, messages: talk.history(conversation), params: settings.request, conversation: conversation.id, answer };
    conversation.server = server.slug;
    chat.composer.rename(conversation.id);
    const receiving = this.receive(message, body);
    this.add(message);
    chat.notice();
    chat.save();
    chat.list.put(conversation);
    keepFocus(() => chat.refresh());
    chat.end.follow(true);
    await receiving;
  }

  // The answer of this conversation that goes on in the server, if there is one.
  takeUp() {
    const last = this.chat.conversation.messages.at(-1);
    if (!this.running && isArriving(last)) this.receive(last, null);
  }

  // Fill the answer as it arrives: asked for by this body, or taken up again without one.
  /** @param {Chat.Answer} message @param {Chat.Body | null} body */
  async receive(message, body) {
    const { chat } = this;
    const { conversation } = chat;
    const running = { conversation, message, controller: new AbortController(), isRemoved: false };
    this.running = running;
    if (!body) keepFocus(() => chat.refresh());
    say(`${message.server} is answering.`);
    const talk = await chat.talking();
    await talk.receive({
      url: page.dataset.url ?? "",
      answers: page.dataset.answers,
      csrf: chat.csrf,
      body,
      signal: running.controller.signal,
      message,
      view: () => chat.transcript?.get(message),
      // Who takes it up keeps it when it is whole: until then the server has it, and who asked keeps it.
      keep: () => running.isRemoved || !body || chat.save(conversation, message),
      isLeaving: () => this.isLeaving,
    });
    message.running = false;
    this.running = null;
    if (!running.isRemoved) chat.save(conversation);
    chat.transcript?.get(message)?.finish?.();
    keepFocus(() => chat.refresh());
    chat.end.rest();
    say(talk.outcome(message));
  }

  stop() {
    this.isPreparing = false;
    this.running?.controller.abort();
  }
}

// For screen readers: the beginning and the end of an answer, not each token.
/** @param {string} text */
function say(text) {
  $("chat-status").textContent = text;
}

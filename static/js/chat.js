// The playground: puts conversation, servers and parameters together.

import { AnswerView, QuestionView, button, element } from "./chat-message.js";
import { Parameters } from "./chat-params.js";
import { Servers } from "./chat-servers.js";
import { CUT_OFF, Store, newAnswer, titleOf } from "./chat-store.js";
import { ChatError, ask, split } from "./chat-stream.js";

const NEAR_BOTTOM = 80; // px from the end within which the page follows the answer
const SAVE_EVERY = 1000; // ms, while an answer arrives

const page = document.getElementById("chat");
const $ = (id) => document.getElementById(id);

class Chat {
  constructor() {
    this.store = new Store(page.dataset.user);
    this.views = new Map(); // message -> view
    this.running = null; // {conversation, message, controller}
    this.parameters = new Parameters($("chat-params-form"));
    this.servers = new Servers({
      list: $("chat-servers"),
      select: $("chat-server"),
      here: page.dataset.here,
      preselected: page.dataset.preselected,
    });
    this.listen();
    const [latest] = this.store.list();
    if (latest) this.open(latest);
    else this.begin();
  }

  listen() {
    this.servers.addEventListener("change", () => this.refresh());
    this.parameters.addEventListener("change", () => {
      this.conversation.params = this.parameters.values;
      if (this.conversation.messages.length) this.save();
      this.refresh();
    });
    $("chat-new").addEventListener("click", () => this.begin());
    $("chat-name").addEventListener("change", (event) => {
      this.conversation.name = event.target.value.trim();
      this.save();
      this.drawList();
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
    $("chat-stop").addEventListener("click", () => this.stop());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.running && !event.defaultPrevented) this.stop();
    });
    window.addEventListener("storage", () => this.drawList());
    window.addEventListener("pagehide", () => this.running && this.store.save(this.running.conversation));
    // Comes before the answer's connection is cut. A download link fires it too, and stays.
    window.addEventListener("beforeunload", () => {
      this.leaving = true;
      setTimeout(() => (this.leaving = false), 2000);
    });
    window.addEventListener("scroll", () => (this.following = isNearBottom()), { passive: true });
  }

  begin() {
    this.open(this.store.create(this.conversation?.params ?? {}, this.servers.wanted));
    $("chat-input").focus();
  }

  open(conversation) {
    // The object that an answer is being written to is the true one, not its stored copy.
    const isRunning = this.running?.conversation.id === conversation.id;
    this.conversation = isRunning ? this.running.conversation : conversation;
    this.parameters.values = this.conversation.params;
    if (!page.dataset.preselected) this.servers.choose(this.conversation.server);
    $("chat-name").value = this.conversation.name;
    this.drawTranscript();
    this.drawList();
    this.refresh();
    if (this.conversation.messages.length) this.follow(true);
  }

  drawTranscript() {
    this.views.clear();
    $("chat-transcript").replaceChildren(...this.conversation.messages.map((message) => this.view(message).root));
  }

  view(message) {
    const view =
      message.role === "user"
        ? new QuestionView(message, { resend: (question, text) => this.resend(question, text) })
        : new AnswerView(message, { regenerate: (answer) => this.regenerate(answer) });
    view.onDraw = () => this.follow();
    this.views.set(message, view);
    return view;
  }

  drawList() {
    const stored = this.store.list().filter(({ id }) => id !== this.conversation.id);
    const all = [this.conversation, ...stored].sort((a, b) => b.updated - a.updated);
    $("chat-conversations").replaceChildren(
      ...all.map((conversation) => {
        const title = titleOf(conversation);
        const open = button(title, "", () => this.open(this.store.get(conversation.id) ?? conversation));
        open.className = "open";
        if (conversation === this.conversation) open.setAttribute("aria-current", "true");
        return element("li", "", open, button("×", `Delete “${title}”`, () => this.remove(conversation)));
      }),
    );
    $("chat-name").placeholder = titleOf(this.conversation);
  }

  remove(conversation) {
    if (this.running?.conversation.id === conversation.id) this.stop();
    this.store.remove(conversation.id);
    const undo = button("Undo", "", () => {
      this.notice();
      this.store.save(conversation);
      this.open(conversation);
    });
    if (conversation.messages.length) this.notice(`Deleted “${titleOf(conversation)}”.`, undo);
    if (conversation.id === this.conversation.id) {
      const [latest] = this.store.list();
      if (latest) this.open(latest);
      else this.begin();
    } else {
      this.drawList();
    }
  }

  notice(text = "", ...more) {
    $("chat-notice").replaceChildren(text, ...more);
    $("chat-notice").hidden = !text;
  }

  // What the composer, the empty state and the hints say now.
  refresh() {
    if (!this.conversation) return; // the servers speak first
    const problem = this.servers.problem || this.parameters.check();
    const elsewhere = this.running && this.running.conversation !== this.conversation;
    $("chat-hint").textContent = elsewhere
      ? `“${titleOf(this.running.conversation)}” is being answered. Stop it to ask something here.`
      : problem;
    $("chat-send").hidden = Boolean(this.running);
    $("chat-stop").hidden = !this.running;
    $("chat-send").disabled = Boolean(problem) || !$("chat-input").value.trim();
    $("chat-empty").hidden = this.conversation.messages.length > 0;
    if (!$("chat-empty").hidden) $("chat-empty").replaceChildren(...this.emptyState());
  }

  emptyState() {
    const { chosen, starting } = this.servers;
    if (chosen) return [element("p", "", `Ask ${chosen.model} something. Enter sends, Shift+Enter makes a new line, Esc stops.`)];
    const link = (text, href) => Object.assign(element("a", "", text), { href });
    if (!starting.length) {
      return [
        element("h2", "", "No server is ready"),
        element("p", "", "Start one on the ", link("dashboard", page.dataset.dashboard), "; it appears here by itself as soon as it is ready."),
      ];
    }
    return [
      element("h2", "", "No server is ready yet"),
      ...starting.map((s) => element("p", "", link(s.slug, s.url), ` is ${s.state}. It appears here by itself when it is ready.`)),
    ];
  }

  send() {
    const input = $("chat-input");
    if ($("chat-send").disabled || this.running) return;
    this.add({ role: "user", content: input.value });
    input.value = "";
    this.answer();
  }

  resend(question, text) {
    if (!this.mayAsk()) return;
    this.conversation.messages.length = this.conversation.messages.indexOf(question);
    this.add({ role: "user", content: text });
    this.drawTranscript();
    this.answer();
  }

  regenerate(answer) {
    if (!this.mayAsk()) return;
    this.conversation.messages.length = this.conversation.messages.indexOf(answer);
    this.drawTranscript();
    this.answer();
  }

  mayAsk() {
    const problem = this.running ? "An answer is arriving. Stop it first." : this.servers.problem || this.parameters.check();
    this.notice(problem);
    return !problem;
  }

  add(message) {
    this.conversation.messages.push(message);
    $("chat-transcript").append(this.view(message).root);
  }

  async answer() {
    const { conversation, servers, parameters } = this;
    const server = servers.chosen;
    const message = newAnswer(server);
    const body = { run: server.run, messages: history(conversation), params: parameters.request };
    conversation.server = server.slug;
    this.running = { conversation, message, controller: new AbortController() };
    this.store.running.add(conversation.id);
    this.add(message);
    this.notice();
    this.save();
    this.drawList();
    this.refresh();
    this.follow(true);
    this.say(`${server.slug} is answering.`);
    await this.receive(this.running, body);
    message.running = false;
    this.store.running.delete(conversation.id);
    this.running = null;
    this.save(conversation);
    this.views.get(message)?.finish();
    this.drawList();
    this.refresh();
    this.follow();
    this.say(outcome(message));
  }

  async receive({ conversation, message, controller }, body) {
    const began = performance.now();
    const waiting = setInterval(() => {
      const passed = Math.round((performance.now() - began) / 1000);
      this.views.get(message)?.wait(message.chunks ? "" : `Waiting for the first token… ${passed} s`);
    }, 1000);
    let savedAt = began;
    try {
      await ask({
        url: page.dataset.url,
        csrf: $("chat-composer").elements.csrfmiddlewaretoken.value,
        body,
        signal: controller.signal,
        answer: message,
        changed: () => {
          this.views.get(message)?.wait("");
          this.views.get(message)?.update();
          if (performance.now() - savedAt < SAVE_EVERY) return;
          savedAt = performance.now();
          this.save(conversation);
        },
      });
    } catch (error) {
      if (error.name === "AbortError") message.stopped = true;
      else if (this.leaving) message.error = CUT_OFF;
      else if (error instanceof ChatError) message.error = { message: error.message, detail: error.detail };
      else throw error;
    } finally {
      clearInterval(waiting);
    }
  }

  stop() {
    this.running?.controller.abort();
  }

  save(conversation = this.conversation) {
    if (!this.store.save(conversation)) {
      this.notice("This browser's storage is full: the conversation is shown, but not kept. Delete older ones.");
    }
  }

  // For screen readers: the beginning and the end of an answer, not each token.
  say(text) {
    $("chat-status").textContent = text;
  }

  follow(always = false) {
    if (always) this.following = true;
    if (this.following) window.scrollTo({ top: document.documentElement.scrollHeight });
  }
}

function isNearBottom() {
  const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
  return scrollHeight - clientHeight - scrollTop < NEAR_BOTTOM;
}

// What the engine is told: texts without their reasoning, and no answer that has none.
function history({ messages, params }) {
  const told = messages
    .map((message) => ({
      role: message.role,
      content: message.role === "user" ? message.content : split(message).text,
    }))
    .filter(({ content }) => content);
  return params.system?.trim() ? [{ role: "system", content: params.system }, ...told] : told;
}

function outcome(message) {
  if (message.error) return "The answer failed.";
  if (message.stopped) return "Stopped.";
  const tokens = message.usage?.completion_tokens;
  return tokens ? `The answer is complete: ${tokens} tokens.` : "The answer is complete.";
}

// Beside the conversation there is room for the sides; above it, on a phone, there is not.
$("chat-params").open = window.matchMedia("(min-width: 48.01rem)").matches;
$("chat-list").open = window.matchMedia("(min-width: 70.01rem)").matches;
new Chat();

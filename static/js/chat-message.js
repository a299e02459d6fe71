// One message of the conversation as DOM.

import { copyButton } from "./chat-copy.js";
import { split } from "./chat-stream.js";
import { MarkdownView } from "./markdown.js";

export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export function button(label, title, onClick) {
  const made = element("button", "quiet", label);
  made.type = "button";
  if (title) made.setAttribute("aria-label", title);
  made.addEventListener("click", onClick);
  return made;
}

const seconds = (ms) => `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
const count = (number) => number.toLocaleString("en-GB");

export class QuestionView {
  constructor(message, { resend }) {
    this.message = message;
    this.resend = resend;
    this.root = element("article", "message question");
    this.root.setAttribute("aria-label", "You");
    this.show();
  }

  show() {
    const text = element("div", "text", this.message.content);
    text.setAttribute("hx-ignore", "");
    this.root.replaceChildren(
      text,
      element(
        "footer", "message-foot",
        button("Edit", "Edit this message and send it again", () => this.edit()),
        copyButton("Copy this message", () => this.message.content),
      ),
    );
  }

  edit() {
    const area = element("textarea", "edit-area");
    area.value = this.message.content;
    area.rows = Math.min(12, this.message.content.split("\n").length + 1);
    area.setAttribute("aria-label", "Edit the message");
    const send = () => area.value.trim() && this.resend(this.message, area.value);
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      } else if (event.key === "Escape") {
        event.stopPropagation();
        this.show();
      }
    });
    this.root.replaceChildren(
      area,
      element(
        "footer", "message-foot",
        button("Send again", "", send),
        button("Cancel", "", () => this.show()),
        element("span", "note", "Everything below this message is replaced."),
      ),
    );
    area.focus();
  }
}

export class AnswerView {
  constructor(message, { regenerate }) {
    this.message = message;
    this.regenerate = regenerate;
    this.root = element("article", "message answer");
    this.root.setAttribute("aria-label", `Answer of ${message.server}`);
    this.thinkingText = document.createTextNode("");
    this.thinkingTitle = element("summary", "", "Reasoning");
    const thinking = element("div", "thinking-text", this.thinkingText);
    thinking.setAttribute("hx-ignore", "");
    this.thinking = element("details", "thinking", this.thinkingTitle, thinking);
    this.thinking.hidden = true;
    const body = element("div", "markdown");
    this.markdown = new MarkdownView(body);
    this.calls = element("div", "calls");
    this.calls.setAttribute("hx-ignore", "");
    this.waiting = element("p", "waiting");
    this.waiting.hidden = true;
    this.foot = element("footer", "message-foot");
    this.root.append(this.thinking, body, this.calls, this.waiting, this.foot);
    this.scheduled = false;
    this.cost = 0; // ms that the last drawing took
    this.drawnAt = 0;
    message.running ? this.update() : this.finish();
  }

  // Draw at most once a frame, and leave the page four fifths of the time.
  update() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      if (!this.message.running) return;
      if (performance.now() - this.drawnAt < this.cost * 4) {
        this.update();
        return;
      }
      const began = performance.now();
      this.draw();
      this.drawnAt = performance.now();
      this.cost = this.drawnAt - began;
      this.onDraw?.();
    });
  }

  draw() {
    const { message } = this;
    const { thinking, text } = split(message);
    this.drawThinking(thinking, text);
    if (message.running) this.markdown.update(text);
    else this.markdown.finish(text);
    if (message.calls.length) {
      this.calls.replaceChildren(...message.calls.filter(Boolean).map(callView));
    }
  }

  drawThinking(thinking, text) {
    if (!thinking) {
      this.thinking.hidden = true;
      return;
    }
    const { message } = this;
    if (thinking.startsWith(this.thinkingText.data)) {
      this.thinkingText.appendData(thinking.slice(this.thinkingText.data.length));
    } else {
      this.thinkingText.data = thinking;
    }
    this.thinking.hidden = false;
    const going = message.running && !text && !message.calls.length;
    this.thinkingTitle.textContent = going
      ? "Reasoning…"
      : `Reasoned${message.reasonedMs === null ? "" : ` for ${seconds(Math.max(message.reasonedMs, 10))}`}`;
  }

  wait(text) {
    this.waiting.hidden = !text;
    this.waiting.textContent = text;
  }

  finish() {
    const { message } = this;
    this.draw();
    this.wait("");
    this.root.querySelector(".failure")?.remove();
    if (message.error) this.foot.before(failureView(message, () => this.regenerate(message)));
    this.foot.replaceChildren(
      ...figures(message),
      copyButton("Copy this answer", () => split(message).text || split(message).thinking),
      button("Regenerate", "Regenerate this answer", () => this.regenerate(message)),
    );
  }
}

function callView(call) {
  let words = call.arguments;
  try {
    words = JSON.stringify(JSON.parse(call.arguments), null, 2);
  } catch {
    // Still arriving, or not JSON: shown as it is.
  }
  const name = element("code", "", call.name || "tool");
  const pre = element("pre", "", words);
  pre.tabIndex = 0;
  return element("section", "call", element("p", "", "Tool call ", name), pre);
}

function failureView({ error, server, url }, retry) {
  const view = element("div", "failure", element("p", "", error.message));
  view.setAttribute("role", "alert");
  view.setAttribute("hx-ignore", "");
  if (error.detail && !error.message.includes(error.detail)) {
    view.append(element("pre", "", error.detail));
  }
  const again = button("Retry", "", retry);
  again.className = "";
  const log = Object.assign(element("a", "", `Log of ${server}`), { href: url });
  view.append(element("p", "failure-foot", again, log));
  return view;
}

function figures(message) {
  const said = [];
  const add = (text, title, className = "figure") => {
    const span = element("span", className, text);
    if (title) span.title = title;
    said.push(span);
  };
  if (message.firstMs !== null) add(`first token ${seconds(message.firstMs)}`, "From Send to the first token, as this browser saw it");
  const tokens = message.usage?.completion_tokens;
  const rate = (pieces) => ((pieces - 1) / (message.spanMs / 1000)).toFixed(1);
  if (tokens > 1 && message.spanMs > 0) add(`${rate(tokens)} tok/s`, "After the first token");
  if (message.usage) {
    const cached = message.usage.prompt_tokens_details?.cached_tokens;
    const prompt = `${count(message.usage.prompt_tokens ?? 0)} prompt${cached ? ` (${count(cached)} cached)` : ""}`;
    add(`${prompt} + ${count(tokens ?? 0)} completion tokens`);
  } else if (message.chunks) {
    add(`about ${count(message.chunks)} chunks`, "The engine reported no token counts");
  }
  if (message.finish === "length") add("cut off at max tokens", "Raise max tokens for a longer answer", "figure attention");
  else if (message.stopped) add("stopped by you");
  else if (message.finish) add(`finish: ${message.finish}`);
  add(message.model, `Served by ${message.server}`, "figure model");
  return said;
}

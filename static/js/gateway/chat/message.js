// @ts-check
// One message of the conversation as DOM.

import { ResultView, arrivingCalls, callsView } from "./calls.js";
import { copyIconButton } from "../../page/clipboard.js";
import { block, button, element, iconButton, plural, seconds } from "../../page/dom.js";
import { icon } from "../../page/toast.js";
import { cached, figures, summary } from "./figures.js";
import { attached, thumbnails } from "./pictures.js";
import { foldedLogprobs } from "./logprobs.js";
import { foldedRaw } from "./raw.js";
import { reasoningTokens, split } from "./reasoning.js";
import { formView } from "./schema.js";
import { MarkdownView } from "./markdown.js";
import { find } from "../../page/parts.js";

// `actions`: resend, regenerate, respond, branch; asked(message) is what it was asked with, results(message)
// what its calls have got, hint(key) what the profile lacks, versions() the way to its other versions.
/** @param {Chat.Message} message @param {Chat.Actions} actions @returns {Chat.View} */
export function viewOf(message, actions) {
  try {
    if (message.role === "user") return new QuestionView(message, actions);
    if (message.role === "tool") return new ResultView(message, actions);
    return new AnswerView(message, actions);
  } catch (error) {
    // What is stored may be of another release, or of somebody who has shared nonsense.
    if (!(error instanceof TypeError)) throw error;
    console.error(error);
    const says = "This message cannot be shown: what is stored of it is not as this page knows it.";
    return { message, root: element("article", "message failure", element("p", "", says)), wait() {}, update() {}, finish() {} };
  }
}

export class QuestionView {
  /** @param {Chat.Question} message @param {Chat.Actions} actions */
  constructor(message, { resend = null, versions = NOTHING.versions }) {
    this.message = message;
    this.resend = resend;
    this.versions = versions;
    this.root = element("article", "message question");
    this.root.setAttribute("aria-label", "You");
    this.show();
  }

  show() {
    const text = element("div", "text", this.message.content);
    text.setAttribute("hx-ignore", "");
    text.hidden = !this.message.content;
    const all = attached(this.message);
    this.root.replaceChildren(
      ...(all.length ? [thumbnails(all)] : []),
      text,
      element(
        "footer", "message-foot",
        ...this.versions(),
        element(
          "span", "message-actions",
          copyIconButton("Copy this message", () => this.message.content),
          ...(this.resend ? [iconButton(icon("edit"), "Edit this message and send it again", () => this.edit())] : []),
        ),
      ),
    );
  }

  edit() {
    const { resend } = this;
    const before = document.activeElement;
    const leave = () => {
      this.show();
      const isThere = before instanceof HTMLElement && before.isConnected;
      (isThere ? before : find(this.root, "[aria-label^=Edit]", HTMLElement)).focus();
    };
    const area = element("textarea", "edit-area");
    area.dir = "auto";
    area.value = this.message.content;
    area.rows = Math.min(12, this.message.content.split("\n").length + 1);
    area.setAttribute("aria-label", "Edit the message");
    let all = attached(this.message);
    const shown = element("div", "edit-pictures");
    const draw = () => shown.replaceChildren(...(all.length ? [thumbnails(all, remove)] : []));
    /** @param {Chat.Attached} one */
    const remove = (one) => {
      all = all.filter((each) => each !== one);
      draw();
    };
    draw();
    const send = () => (area.value.trim() || all.length) && resend?.(this.message, area.value, all);
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      } else if (event.key === "Escape") {
        event.stopPropagation();
        leave();
      }
    });
    const sending = button("Send again", "", send);
    const leaving = button("Cancel", "", leave);
    sending.className = leaving.className = "";
    this.root.replaceChildren(
      shown, area,
      element("footer", "edit-foot", element("span", "note", "The earlier text stays as another version."), leaving, sending),
    );
    area.focus();
  }
}

// Who only reads gives no `respond`.
/** @type {Required<Chat.Actions>} */
const NOTHING = { asked: () => [], results: () => [], hint: () => "", respond: null, regenerate: null, resend: null, branch: null, versions: () => [] };

export class AnswerView {
  /** @type {(() => void) | undefined} */
  onDraw;

  /** @param {Chat.Answer} message @param {Chat.Actions} actions */
  constructor(message, actions) {
    this.message = message;
    /** @type {Required<Chat.Actions>} */
    this.actions = { ...NOTHING, ...actions };
    this.root = element("article", "message answer");
    this.root.setAttribute("aria-label", `Answer of ${message.server}`);
    this.thinkingText = document.createTextNode("");
    this.thinkingTitle = element("summary", "", "Reasoning");
    const thinking = element("div", "thinking-text", this.thinkingText);
    thinking.setAttribute("hx-ignore", "");
    this.thinking = element("details", "thinking", this.thinkingTitle, thinking);
    this.thinking.hidden = true;
    this.body = element("div", "markdown");
    this.markdown = new MarkdownView(this.body);
    this.calls = element("div", "calls");
    this.calls.setAttribute("hx-ignore", "");
    this.waiting = element("p", "waiting");
    this.waiting.hidden = true;
    this.after = element("div", "after");
    this.foot = element("footer", "message-foot");
    this.details = element("div", "details");
    this.details.hidden = true;
    this.root.append(this.thinking, this.body, this.calls, this.waiting, this.after, this.foot);
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
    if (message.running && message.calls.length) this.calls.replaceChildren(...arrivingCalls(message.calls));
  }

  /** @param {string} thinking @param {string} text */
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
    const time = message.reasonedMs === null ? "" : ` for ${seconds(Math.max(message.reasonedMs, 10))}`;
    const tokens = message.running ? null : reasoningTokens(message);
    const length = tokens ? `, ${tokens.isEstimate ? "about " : ""}${plural(tokens.tokens, "token")}` : "";
    this.thinkingTitle.textContent = going ? "Reasoning…" : `Reasoned${time}${length}`;
  }

  /** @param {string} text */
  wait(text) {
    this.waiting.hidden = !text;
    this.waiting.textContent = text;
  }

  finish() {
    const { message, actions } = this;
    this.draw();
    this.wait("");
    const { respond, regenerate, branch } = actions;
    const results = actions.results(message);
    this.calls.replaceChildren(
      ...(message.calls.some(Boolean)
        ? [callsView(message, { results, isAnswered: results.length > 0, respond: respond && ((made) => respond(message, made)) })]
        : []),
    );
    this.root.querySelector(".failure")?.remove();
    const form = formView(message);
    this.body.hidden = form !== null && "replaces" in form;
    const untold = message.usage && cached(message) === null ? actions.hint("cached", message) : "";
    this.after.replaceChildren(...[form, ...this.hints()].filter(Boolean));
    const again = regenerate && (() => regenerate(message));
    if (message.error) this.after.append(failureView(message, message.error, again));
    this.details.replaceChildren(
      element("p", "figures-all", ...figures(message)),
      ...(untold ? [untold] : []),
      ...(message.logprobs?.length ? [foldedLogprobs(message)] : []),
      ...(message.request ? [foldedRaw(message, () => actions.asked(message))] : []),
    );
    this.foot.replaceChildren(
      element("p", "figures-line", ...summary(message)),
      ...actions.versions(),
      element(
        "span", "message-actions",
        copyIconButton("Copy this answer", () => split(message).text || split(message).thinking),
        ...(again ? [iconButton(icon("restart"), "Regenerate this answer", again)] : []),
        ...(branch ? [iconButton(icon("branch"), "Branch from here", () => branch(message))] : []),
        this.detailsButton(),
      ),
      this.details,
    );
  }

  detailsButton() {
    const made = iconButton(icon("info"), "Details of this answer", () => {
      this.details.hidden = !this.details.hidden;
      made.ariaExpanded = String(!this.details.hidden);
    });
    made.classList.add("harmless"); // who only reads may press it, too
    made.ariaExpanded = String(!this.details.hidden);
    return made;
  }

  // What this answer shows that the profile lacks.
  hints() {
    const { message, actions } = this;
    const { text, inText } = split(message);
    /** @type {Chat.LackKey[]} */
    const missed = [];
    if (inText) missed.push("reasoning");
    if (message.request?.tools && !message.calls.length && /<tool_call>|<\|tool_call|\[TOOL_CALLS\]|"name"\s*:.*"arguments"\s*:/s.test(text)) missed.push("tools");
    return missed.map((key) => actions.hint(key, message));
  }
}

/** @param {Chat.Answer} answer @param {Chat.Failure} failure @param {(() => void) | null} retry */
function failureView({ server, url }, failure, retry) {
  const view = element("div", "failure", element("p", "", failure.message));
  view.setAttribute("role", "alert");
  view.setAttribute("hx-ignore", "");
  if (failure.detail && !failure.message.includes(failure.detail)) view.append(block(failure.detail));
  const foot = element("p", "failure-foot");
  if (retry) {
    const again = button("Retry", "", retry);
    again.className = "";
    foot.append(again);
  }
  // It is stored with the message, and may be anything.
  if (/^\/(?!\/)/.test(url)) foot.append(Object.assign(element("a", "", `Log of ${server}`), { href: url }));
  view.append(foot);
  return view;
}

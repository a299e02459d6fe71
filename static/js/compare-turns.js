// What was said in a comparison: each question once, below it what the columns said to it.

import { element } from "./chat-dom.js";
import { asked, resultsOf, turnsOf } from "./chat-request.js";
import { viewOf } from "./chat-message.js";
import { Bars } from "./compare-bars.js";

export const TITLES = "ABCD"; // of columns

const answerOf = (said) => said.findLast(({ role }) => role === "assistant");

// `columns` are {title, conversation}; `actions(column)` what a person may do with its last answer.
export class Turn {
  constructor(at, columns, actions = () => ({})) {
    Object.assign(this, { at, columns, actions });
    this.views = new Map(); // message -> view
    const { question } = columns.map(({ conversation }) => turnsOf(conversation)[at]).find(Boolean);
    // What was copied from one conversation is the same in all columns.
    this.isCopied = Boolean(question.copied);
    this.cells = new Map((this.isCopied ? columns.slice(0, 1) : columns).map((column) => [column, this.cell(column)]));
    this.bars = new Bars();
    const row = element("div", this.isCopied ? "copied" : "compare-grid", ...this.cells.values());
    row.dataset.columns = this.cells.size;
    this.root = element("section", "turn", viewOf(question, {}).root, row, ...(this.isCopied ? [] : [this.bars.root]));
    for (const column of this.cells.keys()) this.draw(column);
  }

  cell(column) {
    const cell = element("div", "cell", element("p", "cell-name"), element("div", "said"));
    cell.setAttribute("role", "group");
    cell.setAttribute("aria-label", this.isCopied ? "Said before" : `Column ${column.title}`);
    return cell;
  }

  said(column) {
    return turnsOf(column.conversation)[this.at]?.said ?? [];
  }

  // Which column it is, and who has answered there.
  name(column) {
    const server = answerOf(this.said(column))?.server;
    if (this.isCopied) return `Said before, by ${server || "nobody"}`;
    return server ? `${column.title} · ${server}` : column.title;
  }

  // All that the column has said to this question.
  draw(column) {
    const said = this.said(column);
    const cell = this.cells.get(column);
    cell.querySelector(".cell-name").textContent = this.name(column);
    const place = cell.querySelector(".said");
    place.replaceChildren(...(said.length ? said.map((message) => this.view(column, message).root) : [element("p", "note", "Not asked.")]));
    this.race();
  }

  view(column, message) {
    const { conversation } = column;
    const { versionsOf = () => [], ...actions } = this.isCopied ? {} : this.actions(column);
    const view = viewOf(message, {
      versions: () => versionsOf(message),
      asked: () => asked(conversation, message),
      results: () => resultsOf(conversation.messages, conversation.messages.indexOf(message)),
      ...actions,
    });
    view.onDraw = () => this.onDraw?.();
    this.views.set(message, view);
    return view;
  }

  // One more piece of an answer has come.
  drawn(message) {
    this.views.get(message)?.update();
    // The first token is a figure; all else is one at the end.
    if (message.chunks === 1) this.race();
  }

  // Its questions are no longer the last: what may be asked anew is below.
  close() {
    this.actions = () => ({});
    for (const column of this.cells.keys()) this.draw(column);
  }

  race() {
    if (this.isCopied) return;
    this.bars.show(this.columns.map((column) => ({ name: this.name(column), message: answerOf(this.said(column)) })));
  }
}

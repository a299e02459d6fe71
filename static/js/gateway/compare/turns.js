// @ts-check
// What was said in a comparison: each question once, below it what the columns said to it.

import { element } from "../../page/dom.js";
import { asked, resultsOf, turnsOf } from "../chat/request.js";
import { viewOf } from "../chat/message.js";
import { Bars } from "./bars.js";
import { find } from "../../page/parts.js";

/** @param {Chat.Message[]} said */
const answerOf = (said) => said.findLast((message) => message.role === "assistant");

/** @typedef {Chat.Actions & {versionsOf?: (message: Chat.Message) => HTMLElement[]}} Actions */

/**
 * `actions` are what a person may do with the last answer of a column.
 * @template {Chat.Column} C
 */
export class Turn {
  /** @type {(() => void) | undefined} */
  onDraw;

  /** @param {number} at @param {C[]} columns @param {(column: C) => Actions} [actions] */
  constructor(at, columns, actions = () => ({})) {
    this.at = at;
    this.columns = columns;
    this.actions = actions;
    /** @type {Map<Chat.Message, Chat.View>} */
    this.views = new Map();
    const [first] = columns.map(({ conversation }) => turnsOf(conversation)[at]).filter(Boolean);
    if (!first) throw new TypeError(`No column has a question ${at}.`);
    const { question } = first;
    // What was copied from one conversation is the same in all columns.
    this.isCopied = Boolean(question.copied);
    this.cells = new Map((this.isCopied ? columns.slice(0, 1) : columns).map((column) => [column, this.cell(column)]));
    this.bars = new Bars();
    const row = element("div", this.isCopied ? "copied" : "compare-grid", ...this.cells.values());
    row.dataset.columns = String(this.cells.size);
    this.root = element("section", "turn", viewOf(question, {}).root, row, ...(this.isCopied ? [] : [this.bars.root]));
    for (const column of this.cells.keys()) this.draw(column);
  }

  /** @param {C} column */
  cell(column) {
    const cell = element("div", "cell", element("p", "cell-name"), element("div", "said"));
    cell.setAttribute("role", "group");
    cell.setAttribute("aria-label", this.isCopied ? "Said before" : `Column ${column.title}`);
    return cell;
  }

  /** @param {C} column */
  said(column) {
    return turnsOf(column.conversation)[this.at]?.said ?? [];
  }

  // Which column it is, and who has answered there.
  /** @param {C} column */
  name(column) {
    const server = answerOf(this.said(column))?.server;
    if (this.isCopied) return `Said before, by ${server || "nobody"}`;
    return server ? `${column.title} · ${server}` : column.title;
  }

  // All that the column has said to this question.
  /** @param {C} column */
  draw(column) {
    const said = this.said(column);
    const cell = this.cells.get(column);
    if (!cell) return;
    find(cell, ".cell-name", HTMLElement).textContent = this.name(column);
    const place = find(cell, ".said", HTMLElement);
    place.replaceChildren(...(said.length ? said.map((message) => this.view(column, message).root) : [element("p", "note", "Not asked.")]));
    this.race();
  }

  /** @param {C} column @param {Chat.Message} message */
  view(column, message) {
    const { conversation } = column;
    /** @type {Actions} */
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
  /** @param {Chat.Answer} message */
  drawn(message) {
    this.views.get(message)?.update?.();
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
    this.bars.show(this.columns.map((column) => ({ name: this.name(column), message: answerOf(this.said(column)), answers: this.answers(column) })));
  }

  // All that this column has answered up to this question, without what was copied into it.
  /** @param {C} column */
  answers(column) {
    const turns = turnsOf(column.conversation).slice(0, this.at + 1);
    return turns.flatMap(({ question, said }) => (question.copied ? [] : [answerOf(said)])).filter((each) => each !== undefined);
  }
}

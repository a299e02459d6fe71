// @ts-check
// Help and completion in the profile form's boxes of flags and variables: what a flag takes,
// names and values while they are typed, and what the form's check says of single words.

import { sourceOf } from "./about.js";
import { fetchList } from "./list.js";
import { flags, here, placed, variables } from "./text.js";
import { FlagOptions } from "./options.js";
import { describeFlag, describeVariable, Remarks } from "./panel.js";
import { suggest } from "./suggest.js";
import { all, byId, find } from "../../page/parts.js";
import { whenReleased } from "../../page/pointer-guard.js";

/** @import { FlagList } from "./list.js" */

const PAUSE = 200; // ms after the last key
const IMAGE_PAUSE = 500;
const ASKED_BY = ["engine", "image", "box", "profile"]; // fields that say whose flags are meant

class FlagHelp {
  /** @type {FlagList | null} */
  list = null;
  wanted = ""; // the address of the list that was asked for last
  /** The name whose help is shown. @type {string | null} */
  described = null;
  isTaking = false;
  /** What the check has said last. @type {Flags.Told[]} */
  told = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  imageTimer;

  /** @param {HTMLFormElement} form @param {HTMLElement} element */
  constructor(form, element) {
    this.form = form;
    this.isFlags = element.dataset.kind === "flags";
    this.address = element.dataset.flags ?? "";
    const field = element.closest(".field") ?? form;
    this.box = find(field, "textarea", HTMLTextAreaElement);
    this.source = find(field, ".flag-source", HTMLElement);
    this.about = find(element, ".flag-about", HTMLElement);
    this.marks = find(element, ".flag-marks", HTMLElement);
    this.remarks = new Remarks(find(this.marks, "ul", HTMLElement), (mark) => this.#use(mark));
    const options = find(element, "[role=listbox]", HTMLElement);
    const said = find(element, ".flag-said", HTMLElement);
    this.options = new FlagOptions(this.box, options, said, (item, at) => this.#take(item, at));
    this.#listen();
    this.load();
  }

  // Anew, where the image may have said something since.
  /** @param {boolean} [isNews] */
  async load(isNews = false) {
    const said = new FormData(this.form);
    const query = new URLSearchParams(ASKED_BY.map((name) => [name, String(said.get(name) ?? "").trim()]));
    const address = `${this.address}?${query}`;
    this.wanted = address;
    let list = null;
    let trouble = "";
    try {
      list = await fetchList(address, isNews);
    } catch (error) {
      trouble = `${error instanceof Error ? error.message : error}: no help and completion here. The list of flags is requested again when you come back to this box.`;
    }
    if (this.wanted !== address || (list && list === this.list)) return;
    this.list = list;
    this.source.textContent = list ? sourceOf(list, this.isFlags, query.get("image")) : trouble;
    if (list) this.source.append(" ", keys());
    if (this.options.isOpen) this.#suggest(true);
    this.#forget();
    this.#look();
  }

  #listen() {
    const { box } = this;
    const ids = [box.getAttribute("aria-describedby"), this.marks.id, this.about.id, this.source.id];
    box.setAttribute("aria-describedby", ids.filter(Boolean).join(" "));
    for (const name of ["engine", "box"]) this.#field(name)?.addEventListener("change", () => this.load());
    this.#field("image")?.addEventListener("input", () => {
      clearTimeout(this.imageTimer);
      this.imageTimer = setTimeout(() => this.load(), IMAGE_PAUSE);
    });
    box.addEventListener("input", (event) => {
      if (!(event instanceof InputEvent && event.isComposing)) this.#suggest();
      this.#lookSoon();
    });
    box.addEventListener("keydown", (event) => this.#key(event));
    document.body.addEventListener("images", () => this.load(true));
    box.addEventListener("focus", () => this.load());
    box.addEventListener("blur", () => this.#leave());
    box.addEventListener("scroll", () => this.options.hide());
    document.addEventListener("selectionchange", () => {
      if (document.activeElement === box) this.#moved();
    });
  }

  /** @param {string} name */
  #field(name) {
    const found = this.form.elements.namedItem(name);
    return found instanceof Element ? found : null;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.isComposing) return;
    const isAsking = (event.key === " " && event.ctrlKey) || (event.key === "ArrowDown" && event.altKey);
    if (isAsking) this.#suggest(true);
    else if (!this.options.key(event)) return;
    event.preventDefault();
  }

  // The caret is elsewhere: another flag's help, and no list that belongs to another word.
  #moved() {
    const { shown } = this.options;
    const { selectionStart: caret } = this.box;
    if (shown && (caret < shown.start || caret > shown.end)) this.options.hide();
    this.#help();
    this.#lookSoon();
  }

  #leave() {
    this.options.hide();
    clearTimeout(this.timer);
    whenReleased(() => this.#look());
  }

  #lookSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#look(), PAUSE);
  }

  /** @param {boolean} [isAsked] */
  #suggest(isAsked = false) {
    if (this.isTaking) return;
    const { list, caret } = this;
    this.options.show(list && caret !== null ? suggest(list, this.isFlags, this.box.value, caret, isAsked) : null);
  }

  // null where the focus is elsewhere, or a piece of text is selected.
  get caret() {
    const { selectionStart, selectionEnd } = this.box;
    return document.activeElement === this.box && selectionStart === selectionEnd ? selectionStart : null;
  }

  // The flag or variable at the caret.
  get atCaret() {
    const { value } = this.box;
    return this.caret === null ? null : here(this.isFlags ? flags(value) : variables(value), value, this.caret);
  }

  /** @param {Record<string, Flags.Told[] | null>} told by box */
  heed(told) {
    // null: what is typed could not be read, and says why itself.
    this.told = told[this.box.name] ?? this.told;
    this.#look();
  }

  #look() {
    clearTimeout(this.timer);
    const found = placed(this.told, this.isFlags, this.box.value);
    const typed = this.atCaret;
    this.remarks.show(found.filter((each) => this.remarks.has(each) || !isUnfinished(each, typed, this.caret)));
    if (!this.#help()) this.#forget();
  }

  // What was shown last stays, unless it would pass for the help of an unknown name.
  #help() {
    const typed = this.atCaret;
    if (!this.list || !typed || this.described === typed.name) return true;
    const describe = this.isFlags ? describeFlag : describeVariable;
    const isKnown = describe(this.about, this.list, typed);
    if (isKnown) this.described = typed.name;
    return isKnown;
  }

  #forget() {
    this.described = null;
    this.about.hidden = true;
  }

  /** @param {Flags.Item} item @param {Flags.Suggestion} suggestion */
  #take({ text }, { part, start, end }) {
    const rest = this.box.value.slice(end);
    const joint = part === "name" ? jointOf(this.list, this.isFlags, text) : "";
    const isJoined = this.isFlags ? /^=|^[ \t]+[^\s#]/.test(rest) : rest.startsWith("=");
    this.#replace(start, end, isJoined ? text : text + joint);
    if (joint && !isJoined) this.#suggest();
  }

  /** @param {Flags.Mark} mark */
  #use({ wrong, instead }) {
    this.#replace(wrong.start, wrong.end, instead);
    this.#look();
  }

  // As if it was typed: the browser can undo it, and the form's check hears of it.
  /** @param {number} start @param {number} end @param {string} text */
  #replace(start, end, text) {
    const { box } = this;
    this.isTaking = true;
    box.focus();
    box.setSelectionRange(start, end);
    if (!document.execCommand("insertText", false, text)) {
      box.setRangeText(text, start, end, "end");
      box.dispatchEvent(new InputEvent("input", { bubbles: true }));
    }
    this.isTaking = false;
  }
}

function keys() {
  const said = document.createElement("span");
  said.className = "keys";
  said.textContent = "Ctrl+Space: suggestions.";
  return said;
}

// What stands between a name and its value.
/** @param {FlagList | null} list @param {boolean} isFlags @param {string} name */
function jointOf(list, isFlags, name) {
  if (!isFlags) return "=";
  return list?.find(name)?.takes === "none" || list?.isOff(name) ? "" : " ";
}

// Whether the word that a remark is about is still being typed.
/** @param {Flags.Mark} mark @param {Flags.Typed | null} typed @param {number | null} caret */
function isUnfinished(mark, typed, caret) {
  if (!typed || typed.start !== mark.start) return false;
  return Boolean(mark.values) || caret === null || caret <= mark.end;
}

const form = byId("profile-form", HTMLFormElement);
const check = byId("check", HTMLElement);
const helps = all(form, ".flag-help", HTMLElement).map((element) => new FlagHelp(form, element));
new MutationObserver(() => {
  for (const { dataset } of all(check, "[data-marks]", HTMLElement)) {
    const told = JSON.parse(dataset.marks ?? "{}");
    whenReleased(() => helps.forEach((help) => help.heed(told)));
  }
}).observe(check, { childList: true });

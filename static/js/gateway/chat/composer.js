// @ts-check
// Where a question is written and sent, and its answer stopped.

import { byId } from "../../page/parts.js";

export class Composer {
  /**
   * `last` is for Up in an empty field. `unsent` names what this tab has written and not sent,
   * `about` the conversation that is open: "" is a new one.
   * @param {{
   *   send: () => void,
   *   stop: () => void,
   *   typed: () => void,
   *   last?: (event: KeyboardEvent) => void,
   *   unsent: string,
   *   about?: string,
   * }} on
   */
  constructor({ send, stop, typed, last, unsent, about = "" }) {
    this.place = `inferdash.unsent.${unsent}.`;
    this.about = about;
    this.form = byId("chat-composer", HTMLFormElement);
    this.input = byId("chat-input", HTMLTextAreaElement);
    this.sending = byId("chat-send", HTMLButtonElement);
    this.stopping = byId("chat-stop", HTMLButtonElement);
    this.hint = byId("chat-hint", HTMLElement);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      send();
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowUp" && !this.input.value && !event.isComposing) last?.(event);
      // isComposing: Enter then chooses a word of the input method.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      send();
    });
    this.input.addEventListener("input", typed);
    // All of the card is the field's but what else can be pressed in it.
    this.form.querySelector(".composer-card")?.addEventListener("click", ({ target }) => {
      if (target instanceof Element && !target.closest("button, input, textarea, img, a, .picker")) this.input.focus();
    });
    this.input.value ||= this.unsent;
    // Phones end pages that are hidden without a word.
    window.addEventListener("pagehide", () => this.keepUnsent());
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && this.keepUnsent());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !this.stopping.hidden && !event.defaultPrevented) stop();
    });
    // Stop stands where Send was: the second click of a double click is meant for that one.
    this.stopping.addEventListener("click", ({ detail }) => detail > 1 || stop());
  }

  get unsent() {
    return sessionStorage.getItem(this.place + this.about) ?? "";
  }

  // Another conversation, with what was not sent there.
  /** @param {string} about */
  turn(about) {
    if (about === this.about) return;
    this.keepUnsent();
    this.about = about;
    this.input.value = this.unsent;
  }

  // The same conversation, which has another name now.
  /** @param {string} about */
  rename(about) {
    sessionStorage.removeItem(this.place + this.about);
    this.about = about;
  }

  keepUnsent() {
    try {
      if (this.input.value) sessionStorage.setItem(this.place + this.about, this.input.value);
      else sessionStorage.removeItem(this.place + this.about);
    } catch {
      // Too long for the browser's store: it is in the page alone, as it always was.
    }
  }

  get maySend() {
    return !this.sending.disabled;
  }

  focus() {
    this.input.focus();
  }

  // What was written, which is gone from here.
  give() {
    const text = this.input.value;
    this.input.value = "";
    return text;
  }

  /** @param {{hint: string, isRunning: boolean, mayNot: boolean, hasPictures: boolean}} how */
  draw({ hint, isRunning, mayNot, hasPictures }) {
    this.hint.textContent = hint;
    this.sending.hidden = isRunning;
    this.stopping.hidden = !isRunning;
    this.sending.disabled = mayNot || !(this.input.value.trim() || hasPictures);
  }
}

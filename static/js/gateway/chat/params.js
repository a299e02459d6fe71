// @ts-check
// The parameters beside the conversation: reads and checks what was typed, and says what the
// chosen engine makes of it.

import { all } from "../../page/parts.js";

/** @typedef {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} Field */

/** @type {Record<string, string>} */
const ESCAPES = { n: "\n", t: "\t", "\\": "\\" };
/** @type {Record<string, string>} */
const TITLES = { vllm: "vLLM", sglang: "SGLang", llamacpp: "llama.cpp" };

export class Parameters extends EventTarget {
  heard = ""; // which engine is asked

  /** @param {HTMLFormElement} form */
  constructor(form) {
    super();
    this.form = form;
    /** What each engine calls each parameter. @type {Chat.Parameter[]} */
    this.table = JSON.parse(document.getElementById("chat-parameters")?.textContent ?? "[]");
    this.fields = [...form.elements].filter(isField).filter((field) => field.name);
    form.addEventListener("input", () => {
      this.check();
      this.dispatchEvent(new Event("change"));
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.querySelector("[data-reset]")?.addEventListener("click", () => this.reset());
  }

  /** @returns {Chat.Params} */
  get values() {
    return Object.fromEntries(this.fields.filter((field) => field.value !== "").map((field) => [field.name, field.value]));
  }

  set values(values) {
    for (const field of this.fields) field.value = values?.[field.name] ?? "";
    this.check();
  }

  // The engine's defaults for everything; what the model is told stays.
  reset() {
    for (const field of this.fields) if (field.name !== "system") field.value = "";
    this.check();
    this.dispatchEvent(new Event("change"));
  }

  // Which engine is asked, so that the fields can say what it takes.
  /** @param {string | undefined} engine */
  set engine(engine) {
    if (engine === this.heard) return;
    this.heard = engine ?? "";
    this.check();
  }

  // What goes to the engine. Empty fields are left to the engine's defaults.
  /** @returns {Record<string, unknown>} */
  get request() {
    const { system: _told, extra, ...given } = this.values;
    const made = extra?.trim() ? JSON.parse(extra) : {};
    for (const [name, text] of Object.entries(given)) {
      const kind = this.table.find((each) => each.name === name)?.kind;
      if (!text.trim() || (this.heard && !this.takes(name))) continue;
      const read = READ[kind ?? ""];
      made[name] = read ? read(text) : text;
    }
    return made;
  }

  /** @param {string} name */
  takes(name) {
    const known = this.table.find((each) => each.name === name);
    return !known || !TITLES[this.heard] || this.heard in known.names;
  }

  // The first problem as a sentence, "" when all is well.
  check() {
    let first = "";
    for (const field of this.fields) {
      const problem = problemOf(field);
      field.setCustomValidity(problem);
      field.toggleAttribute("aria-invalid", Boolean(problem));
      const place = this.form.querySelector(`#${field.id}-problem`);
      if (place) place.textContent = problem;
      first ||= problem;
      this.remark(field);
    }
    this.count();
    return first;
  }

  /** @param {Field} field */
  remark(field) {
    const place = this.form.querySelector(`#${field.id}-engine`);
    const known = this.table.find((each) => each.name === field.name);
    if (!place || !known) return;
    const title = TITLES[this.heard];
    const isSet = field.value !== "";
    place.classList.toggle("attention", Boolean(title) && isSet && !this.takes(field.name));
    if (!title) place.textContent = "";
    else if (!this.takes(field.name)) place.textContent = isSet ? `${title} does not take it: it is left out.` : `${title} does not take it.`;
    else if (isSet) place.textContent = [alias(known, this.heard, title), known.notes[this.heard]].filter(Boolean).join(" ");
    else place.textContent = "";
  }

  // How many are set, beside each fold.
  count() {
    /** @param {Field[]} fields */
    const set = (fields) => fields.filter((field) => field.value !== "" && field.name !== "system").length;
    for (const place of all(document, "[data-set-in]", HTMLElement)) {
      const fold = document.getElementById(place.dataset.setIn ?? "");
      const number = set(this.fields.filter((field) => fold?.contains(field)));
      place.textContent = number ? `${number} set` : "";
    }
    /** @type {HTMLButtonElement | null} */
    const reset = this.form.querySelector("[data-reset]");
    if (reset) reset.disabled = set(this.fields) === 0;
  }
}

/** @param {Element} element @returns {element is Field} */
const isField = (element) =>
  element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement;

/** @param {Chat.Parameter} known @param {string} engine @param {string} title */
const alias = ({ name, names }, engine, title) => {
  const theirs = names[engine];
  return theirs === name || ["thinking", "logprobs"].includes(name) ? "" : `${title} calls it ${theirs}.`;
};

/** @param {string} text */
const lines = (text) => text.split("\n").filter(Boolean).map((line) => line.replace(/\\([nt\\])/g, (_all, letter) => ESCAPES[letter] ?? letter));

/** @type {Record<string, (text: string) => unknown>} */
const READ = { number: Number, whole: Number, texts: lines, object: (text) => JSON.parse(text) };

/** @param {Field} field */
const titleOf = (field) => (field.labels?.[0]?.textContent ?? "").trim();

/** @param {Field} field */
function problemOf(field) {
  if (field.dataset.kind === "object") return objectProblem(field);
  if (field.dataset.kind === "texts") return textsProblem(field);
  return rangeProblem(field);
}

/** @param {Field} field */
function rangeProblem(field) {
  if (!(field instanceof HTMLInputElement) || field.type !== "number") return "";
  const { badInput, rangeUnderflow, rangeOverflow, stepMismatch } = field.validity;
  if (!(badInput || rangeUnderflow || rangeOverflow || stepMismatch)) return "";
  const upto = field.max ? `from ${field.min} to ${field.max}` : `of ${field.min} or more`;
  return `${titleOf(field)} must be a ${field.step === "1" ? "whole " : ""}number ${upto}.`;
}

/** @param {Field} field */
function textsProblem(field) {
  const texts = lines(field.value);
  return texts.length > 16 ? `${titleOf(field)} has ${texts.length} lines, and 16 are the limit.` : "";
}

/** @param {Field} field */
function objectProblem(field) {
  if (!field.value.trim()) return "";
  try {
    const value = JSON.parse(field.value);
    if (value && typeof value === "object" && !Array.isArray(value)) return "";
    return `${titleOf(field)} must be a JSON object, such as ${"placeholder" in field ? field.placeholder : "{}"}.`;
  } catch (error) {
    return `${titleOf(field)} are not JSON: ${error instanceof Error ? error.message : error}`;
  }
}

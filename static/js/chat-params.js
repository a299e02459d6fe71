// The parameters beside the conversation: reads and checks what was typed, and says what the
// chosen engine makes of it.

const ESCAPES = { n: "\n", t: "\t", "\\": "\\" };
const TITLES = { vllm: "vLLM", sglang: "SGLang", llamacpp: "llama.cpp" };

export class Parameters extends EventTarget {
  constructor(form) {
    super();
    // What each engine calls each parameter.
    const table = JSON.parse(document.getElementById("chat-parameters")?.textContent ?? "[]");
    Object.assign(this, { form, table, heard: "" });
    this.fields = [...form.elements].filter((field) => field.name);
    form.addEventListener("input", () => {
      this.check();
      this.dispatchEvent(new Event("change"));
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.querySelector("[data-reset]")?.addEventListener("click", () => this.reset());
  }

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
  set engine(engine) {
    if (engine === this.heard) return;
    this.heard = engine ?? "";
    this.check();
  }

  // What goes to the engine. Empty fields are left to the engine's defaults.
  get request() {
    const { system: _told, extra, ...given } = this.values;
    const made = extra?.trim() ? JSON.parse(extra) : {};
    for (const [name, text] of Object.entries(given)) {
      const kind = this.table.find((each) => each.name === name)?.kind;
      if (!text.trim() || (this.heard && !this.takes(name))) continue;
      made[name] = READ[kind] ? READ[kind](text) : text;
    }
    return made;
  }

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
    const set = (fields) => fields.filter((field) => field.value !== "" && field.name !== "system").length;
    for (const place of document.querySelectorAll("[data-set-in]")) {
      const fold = document.getElementById(place.dataset.setIn);
      const number = set(this.fields.filter((field) => fold.contains(field)));
      place.textContent = number ? `${number} set` : "";
    }
    const reset = this.form.querySelector("[data-reset]");
    if (reset) reset.disabled = set(this.fields) === 0;
  }
}

const alias = ({ name, names }, engine, title) => {
  const theirs = names[engine];
  return theirs === name || ["thinking", "logprobs"].includes(name) ? "" : `${title} calls it ${theirs}.`;
};

const lines = (text) => text.split("\n").filter(Boolean).map((line) => line.replace(/\\([nt\\])/g, (_all, letter) => ESCAPES[letter]));

const READ = { number: Number, whole: Number, texts: lines, object: JSON.parse };

const titleOf = (field) => field.labels[0].textContent.trim();

function problemOf(field) {
  if (field.dataset.kind === "object") return objectProblem(field);
  if (field.dataset.kind === "texts") return textsProblem(field);
  return rangeProblem(field);
}

function rangeProblem(field) {
  if (field.type !== "number") return "";
  const { badInput, rangeUnderflow, rangeOverflow, stepMismatch } = field.validity;
  if (!(badInput || rangeUnderflow || rangeOverflow || stepMismatch)) return "";
  const upto = field.max ? `from ${field.min} to ${field.max}` : `of ${field.min} or more`;
  return `${titleOf(field)} must be a ${field.step === "1" ? "whole " : ""}number ${upto}.`;
}

function textsProblem(field) {
  const texts = lines(field.value);
  return texts.length > 16 ? `${titleOf(field)} has ${texts.length} lines, and 16 are the limit.` : "";
}

function objectProblem(field) {
  if (!field.value.trim()) return "";
  try {
    const value = JSON.parse(field.value);
    if (value && typeof value === "object" && !Array.isArray(value)) return "";
    return `${titleOf(field)} must be a JSON object, such as ${field.placeholder}.`;
  } catch (error) {
    return `${titleOf(field)} are not JSON: ${error.message}`;
  }
}

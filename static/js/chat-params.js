// The parameters beside the conversation: reads and checks what was typed.

const DEFAULTS = { system: "", temperature: "", top_p: "", max_tokens: "", extra: "" };

export class Parameters extends EventTarget {
  constructor(form) {
    super();
    this.form = form;
    this.problemOf = new Map();
    form.addEventListener("input", () => {
      this.check();
      this.dispatchEvent(new Event("change"));
    });
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  get values() {
    return Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, this.form.elements[name].value]));
  }

  set values(values) {
    for (const [name, value] of Object.entries({ ...DEFAULTS, ...values })) {
      this.form.elements[name].value = value;
    }
    this.check();
  }

  // What goes to the engine. Empty fields are left to the engine's defaults.
  get request() {
    const { temperature, top_p, max_tokens, extra } = this.values;
    const given = extra.trim() ? JSON.parse(extra) : {};
    for (const [name, value] of Object.entries({ temperature, top_p, max_tokens })) {
      if (value !== "") given[name] = Number(value);
    }
    return given;
  }

  // The first problem as a sentence, "" when all is well.
  check() {
    let first = "";
    for (const field of this.form.querySelectorAll("input, textarea")) {
      const problem = field.name === "extra" ? extraProblem(field.value) : rangeProblem(field);
      field.setCustomValidity(problem);
      field.toggleAttribute("aria-invalid", Boolean(problem));
      const place = this.form.querySelector(`#${field.id}-problem`);
      if (place) place.textContent = problem;
      first ||= problem;
    }
    return first;
  }
}

function rangeProblem(field) {
  if (field.type !== "number") return "";
  const { badInput, rangeUnderflow, rangeOverflow, stepMismatch } = field.validity;
  if (!(badInput || rangeUnderflow || rangeOverflow || stepMismatch)) return "";
  const upto = field.max ? `from ${field.min} to ${field.max}` : `of ${field.min} or more`;
  return `${field.labels[0].firstChild.textContent.trim()} must be a ${field.step === "1" ? "whole " : ""}number ${upto}.`;
}

function extraProblem(text) {
  if (!text.trim()) return "";
  try {
    const value = JSON.parse(text);
    if (value && typeof value === "object" && !Array.isArray(value)) return "";
    return 'Extra parameters must be a JSON object, such as {"seed": 1}.';
  } catch (error) {
    return `Extra parameters are not JSON: ${error.message}`;
  }
}

// @ts-check
// The JSON schema that answers of a conversation must have, beside it; and how an answer fared.

import { element, plural } from "../../page/dom.js";
import { excerpt, parse, tree } from "./json.js";
import { split } from "./reasoning.js";
import { problems, schemaProblem, unchecked } from "./validation.js";

const string = { type: "string" };
const integer = { type: "integer" };
/** @param {Record<string, unknown>} properties */
const shaped = (properties) => ({
  type: "object", properties, required: Object.keys(properties), additionalProperties: false,
});

/** @type {Record<string, unknown>} */
const EXAMPLES = {
  "A list of languages": shaped({
    languages: {
      type: "array",
      minItems: 1,
      items: shaped({ name: string, mainly_for: string, first_released: integer }),
    },
  }),
  "A verdict with reasons": shaped({
    verdict: { type: "string", enum: ["yes", "no", "unclear"] },
    confidence: { type: "number", minimum: 0, maximum: 1 },
    reasons: { type: "array", items: string, maxItems: 3 },
  }),
  "Facts of a text": shaped({
    people: { type: "array", items: shaped({ name: string, role: { type: ["string", "null"] } }) },
    places: { type: "array", items: string },
    dates: { type: "array", items: { ...string, description: "As YYYY-MM-DD" } },
  }),
};

export class Schema extends EventTarget {
  /**
   * @param {{
   *   mode: HTMLSelectElement,
   *   text: HTMLTextAreaElement,
   *   area: HTMLElement,
   *   problem: HTMLElement,
   *   examples: HTMLSelectElement,
   *   badge: HTMLElement,
   * }} parts
   */
  constructor({ mode, text, area, problem, examples, badge }) {
    super();
    this.mode = mode;
    this.text = text;
    this.area = area;
    this.problem = problem;
    this.badge = badge;
    examples.replaceChildren(new Option("Take an example…", ""), ...Object.keys(EXAMPLES).map((name) => new Option(name, name)));
    mode.addEventListener("change", () => this.changed());
    text.addEventListener("input", () => this.changed());
    examples.addEventListener("change", () => {
      if (!examples.value) return;
      text.value = JSON.stringify(EXAMPLES[examples.value], null, 2);
      mode.value = "schema";
      examples.value = "";
      this.changed();
    });
    this.check();
  }

  changed() {
    this.check();
    this.dispatchEvent(new Event("change"));
  }

  /** @returns {Chat.SchemaText | null} */
  get value() {
    return this.mode.value || this.text.value.trim() ? { mode: this.mode.value, text: this.text.value } : null;
  }

  set value(value) {
    const mode = value?.mode ?? "";
    this.mode.value = ["schema", "json"].includes(mode) ? mode : "";
    this.text.value = value?.text ?? "";
    this.check();
  }

  get request() {
    if (this.mode.value === "json") return { response_format: { type: "json_object" } };
    if (this.mode.value !== "schema") return {};
    const schema = parse(this.text.value).value;
    return { response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } } };
  }

  check() {
    const isWanted = this.mode.value === "schema";
    this.area.hidden = !isWanted && !this.text.value.trim();
    const { value, says } = parse(this.text.value);
    const problem = !isWanted ? "" : says ? `The schema is not JSON. ${says}` : schemaProblem(value);
    this.text.setCustomValidity(problem);
    this.text.toggleAttribute("aria-invalid", Boolean(problem));
    this.problem.textContent = problem;
    this.badge.textContent = isWanted ? "schema" : this.mode.value === "json" ? "any JSON" : "";
    return problem;
  }
}

// What an answer's text is as JSON, when that was asked for; null when it was not.
/** @param {Chat.Answer} message */
export function formView(message) {
  const format = message.request?.response_format;
  if (!format || message.calls.length || message.error || message.stopped) return null;
  const { text } = split(message);
  const { value, says, at } = parse(text);
  if (says) {
    const why = message.finish === "length" ? " It was cut off: raise max tokens." : "";
    return verdict(false, `This is not JSON. ${says}${why}`, excerpt(text, at));
  }
  const schema = format.json_schema?.schema;
  if (!schema) return instead(verdict(true, "This is JSON.", tree(value)));
  const found = problems(schema, value);
  /** @type {Map<string, string>} */
  const wrong = new Map();
  for (const { path, says: what } of found) wrong.set(path, wrong.has(path) ? `${wrong.get(path)}; ${what}` : what);
  const left = unchecked(schema);
  const but = left.length ? ` Not checked here: ${left.join(", ")}.` : "";
  if (!found.length) return instead(verdict(true, `This is what the schema says.${but}`, tree(value)));
  const list = element("ul", "wrongs", ...found.slice(0, 5).map((each) => element("li", "", element("code", "", each.path || "/"), ` ${each.says}`)));
  return instead(verdict(false, `This is not what the schema says, in ${plural(found.length, "place")}.${but}`, list, tree(value, { wrong })));
}

// Shown instead of the text, which says the same.
/** @param {HTMLElement} view */
const instead = (view) => Object.assign(view, { replaces: true });

/** @param {boolean} isValid @param {string} words @param {...HTMLElement} shown */
function verdict(isValid, words, ...shown) {
  const view = element("div", isValid ? "form-verdict valid" : "form-verdict invalid", element("p", "form-words", words), ...shown);
  view.setAttribute("hx-ignore", "");
  return view;
}

// @ts-check
// The tools that a conversation's model may call, beside it.

import { element } from "../../page/dom.js";
import { parse } from "./json.js";
import { schemaProblem } from "./validation.js";

const NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const CHOICES = { auto: "as the model sees fit", required: "at least one", none: "none" };

export const EXAMPLE = [
  {
    type: "function",
    function: {
      name: "weather_at",
      description: "The weather at a place, now or on one of the next days.",
      parameters: {
        type: "object",
        properties: {
          place: { type: "string", description: "A town, with its country" },
          day: { type: "integer", minimum: 0, maximum: 7, description: "Days from today" },
          unit: { type: "string", enum: ["celsius", "fahrenheit"] },
        },
        required: ["place"],
        additionalProperties: false,
      },
    },
  },
];

export class Tools extends EventTarget {
  /**
   * @param {{
   *   text: HTMLTextAreaElement,
   *   choice: HTMLSelectElement,
   *   problem: HTMLElement,
   *   example: HTMLElement,
   *   badge: HTMLElement,
   * }} parts
   */
  constructor({ text, choice, problem, example, badge }) {
    super();
    this.text = text;
    this.choice = choice;
    this.problem = problem;
    this.badge = badge;
    text.addEventListener("input", () => this.changed());
    choice.addEventListener("change", () => this.changed());
    example.addEventListener("click", () => {
      text.value = JSON.stringify(EXAMPLE, null, 2);
      this.changed();
      text.focus();
    });
    this.check();
  }

  changed() {
    this.check();
    this.dispatchEvent(new Event("change"));
  }

  // As a conversation keeps it; null when there are none.
  /** @returns {Chat.ToolsText | null} */
  get value() {
    return this.text.value.trim() ? { text: this.text.value, choice: this.choice.value } : null;
  }

  set value(value) {
    this.text.value = value?.text ?? "";
    this.check();
    this.choice.value = value?.choice ?? "auto";
    if (!this.choice.value) this.choice.value = "auto";
  }

  // As an engine wants them; a function alone is taken for a tool.
  /** @returns {Chat.Tool[]} */
  get list() {
    const { value } = parse(this.text.value || "[]");
    return Array.isArray(value) ? value.map((each) => (each?.function ? each : { type: "function", function: each })) : [];
  }

  get request() {
    const { list } = this;
    if (!list.length) return {};
    const name = this.choice.value.startsWith("=") ? this.choice.value.slice(1) : "";
    return { tools: list, tool_choice: name ? { type: "function", function: { name } } : this.choice.value };
  }

  check() {
    const problem = this.text.value.trim() ? toolsProblem(this.text.value) : "";
    this.text.setCustomValidity(problem);
    this.text.toggleAttribute("aria-invalid", Boolean(problem));
    this.problem.textContent = problem;
    const names = problem ? [] : this.list.map((tool) => tool.function.name);
    this.badge.textContent = names.length ? `${names.length} defined` : "";
    this.offer(names);
    return problem;
  }

  /** @param {string[]} names */
  offer(names) {
    const chosen = this.choice.value;
    const options = Object.entries(CHOICES).map(([value, title]) => new Option(title, value));
    this.choice.replaceChildren(...options, ...names.map((name) => new Option(`always ${name}`, `=${name}`)));
    this.choice.value = chosen || "auto";
    if (!this.choice.value) this.choice.value = "auto";
    this.choice.disabled = !names.length;
  }
}

/** @param {string} text */
export function toolsProblem(text) {
  const { value, says } = parse(text);
  if (says) return `The tools are not JSON. ${says}`;
  if (!Array.isArray(value)) return "The tools must be a list: [ … ].";
  /** @type {Set<string>} */
  const seen = new Set();
  for (const [at, each] of value.entries()) {
    const called = each?.function ?? each;
    const which = `Tool ${at + 1}`;
    if (!called || typeof called !== "object") return `${which} must be an object.`;
    if (!NAME.test(called.name ?? "")) return `${which} needs a name of letters, digits, _ and -, at most 64 of them.`;
    if (seen.has(called.name)) return `Two tools are called ${called.name}.`;
    seen.add(called.name);
    if (called.parameters === undefined) continue;
    const problem = schemaProblem(called.parameters);
    if (problem) return `The parameters of ${called.name}: ${problem}`;
  }
  return "";
}

// What a tool's arguments must be, in the request that an answer came of; undefined where it is
// not among its tools.
/** @param {Chat.Sent | undefined} request @param {string} name */
export const parametersOf = (request, name) => request?.tools?.find((tool) => tool.function?.name === name)?.function.parameters;

/** @param {Chat.Sent | undefined} request @param {string} name */
export const knows = (request, name) => Boolean(request?.tools?.some((tool) => tool.function?.name === name));

/** @param {string} name */
export const toolName = (name) => element("code", "tool-name", name || "(no name)");

// @ts-check
// How probable each token of an answer was: a heat map, with the alternatives of one token.

import { count, element, folded } from "../../page/dom.js";
import { around } from "../../page/parts.js";

const MOST = 2000; // tokens that are kept of an answer
const LEVELS = [0.95, 0.8, 0.5, 0.2, 0.05]; // probabilities from which on a token is of a level

// Kept short, [token, logprob, [[token, logprob] …]]: a long answer has thousands.
/** @param {Chat.Answer} answer @param {unknown} said */
export function takeLogprobs(answer, said) {
  if (!Array.isArray(said)) return;
  const kept = (answer.logprobs ??= []);
  for (const { token, logprob, top_logprobs: top } of said) {
    if (kept.length >= MOST) return;
    if (typeof token !== "string" || typeof logprob !== "number") continue;
    /** @type {{token?: unknown, logprob?: unknown}[]} */
    const others = Array.isArray(top) ? top : [];
    kept.push([token, logprob, others.flatMap(pair)]);
  }
}

/** @param {{token?: unknown, logprob?: unknown} | null} each @returns {[token: string, logprob: number][]} */
const pair = (each) =>
  typeof each?.token === "string" && typeof each.logprob === "number" ? [[each.token, each.logprob]] : [];

/** @param {number} probability */
const level = (probability) => LEVELS.findIndex((from) => probability >= from) + 1 || LEVELS.length + 1;
/** @param {number} logprob */
const percent = (logprob) => {
  const share = Math.exp(logprob) * 100;
  if (share > 0 && share < 0.01) return "< 0.01 %";
  return `${share.toFixed(share < 10 ? 2 : 1)} %`;
};
// What cannot be seen is written out.
/** @param {string} token */
const visible = (token) => token.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replace(/^ +| +$/g, (spaces) => "·".repeat(spaces.length)) || "(nothing)";

/** @param {Chat.Answer} answer */
export function foldedLogprobs(answer) {
  const view = folded("Probabilities", "logprobs-fold");
  view.setAttribute("hx-ignore", "");
  view.addEventListener("toggle", () => {
    view.querySelector(".logprobs")?.remove();
    if (view.open) view.append(heatMap(answer.logprobs ?? []));
  });
  return view;
}

/** @param {Chat.Logprob[]} logprobs */
function heatMap(logprobs) {
  const panel = element("div", "alternatives");
  panel.setAttribute("aria-live", "polite");
  const tokens = logprobs.map(tokenView);
  const map = element("div", "tokens", ...tokens.flatMap((made, at) => (logprobs[at]?.[0].includes("\n") ? [made, element("br")] : [made])));
  map.setAttribute("role", "group");
  map.setAttribute("aria-label", "Tokens by their probability. Arrow keys go from one to the next.");
  let current = 0;
  /** @param {number} at @param {{focus: boolean}} how */
  const choose = (at, { focus }) => {
    const next = Math.min(Math.max(at, 0), tokens.length - 1);
    const [before, now, said] = [tokens[current], tokens[next], logprobs[next]];
    if (!before || !now || !said) return;
    before.tabIndex = -1;
    before.removeAttribute("aria-current");
    current = next;
    now.tabIndex = 0;
    now.setAttribute("aria-current", "true");
    if (focus) now.focus();
    panel.replaceChildren(...alternatives(said));
  };
  /** @param {Event} event */
  const at = (event) => tokens.findIndex((each) => each === around(event, ".token", HTMLElement));
  map.addEventListener("mouseover", (event) => at(event) >= 0 && choose(at(event), { focus: false }));
  map.addEventListener("focusin", (event) => at(event) >= 0 && choose(at(event), { focus: false }));
  map.addEventListener("click", (event) => at(event) >= 0 && choose(at(event), { focus: true }));
  map.addEventListener("keydown", (event) => {
    /** @type {Record<string, number>} */
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    choose(current + step, { focus: true });
  });
  choose(0, { focus: false });
  return element("div", "logprobs", legend(logprobs), map, panel);
}

/** @param {Chat.Logprob} said */
function tokenView([token, logprob]) {
  const made = element("button", `token level-${level(Math.exp(logprob))}`, token.replaceAll("\n", "⏎"));
  made.type = "button";
  made.tabIndex = -1;
  made.setAttribute("aria-label", `${visible(token)}, ${percent(logprob)}`);
  return made;
}

/** @param {Chat.Logprob[]} logprobs */
function legend(logprobs) {
  const mean = logprobs.reduce((sum, [, logprob]) => sum + logprob, 0) / logprobs.length;
  const words = `${count(logprobs.length)} tokens${logprobs.length >= MOST ? " (no more are kept)" : ""}, perplexity ${Math.exp(-mean).toFixed(2)}. `;
  const keys = [...LEVELS, 0].map((from, at) => element("span", `token level-${at + 1}`, at === LEVELS.length ? `< ${(LEVELS.at(-1) ?? 0) * 100} %` : `≥ ${from * 100} %`));
  return element("p", "note legend", words, ...keys);
}

/** @param {Chat.Logprob} said */
function alternatives([token, logprob, others]) {
  /** @type {[token: string, logprob: number][]} */
  const rows = others.some(([other]) => other === token) ? others : [[token, logprob], ...others];
  const sorted = [...rows].sort((a, b) => b[1] - a[1]);
  const body = sorted.map(([other, value]) => {
    const row = element("tr", other === token ? "taken" : "", element("td", "", element("code", "", visible(other))), element("td", "", percent(value)), element("td", "", value.toFixed(3)));
    return row;
  });
  const head = element("tr", "", ...["Token", "Probability", "Logprob"].map((title) => element("th", "", title)));
  const note = others.length ? [] : [element("p", "note", "No alternatives were requested: set logprobs above 0.")];
  return [element("table", "", element("thead", "", head), element("tbody", "", ...body)), ...note];
}

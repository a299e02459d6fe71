// @ts-check
// What the chosen server's profile lacks for this page, said where it is missed, with the fix.

import { button, element, folded } from "../../page/dom.js";
import { find } from "../../page/parts.js";

/** @type {Record<Chat.LackKey, string>} */
const REMARKS = {
  tools: "A call of a tool came as text",
  reasoning: "Reasoning came within the text",
  cached: "cached tokens: n/a",
};

export class Abilities {
  /** @type {Chat.Lack[]} */
  lacks = [];
  drawn = "";

  /** Without a panel it remarks alone. @param {{panel?: HTMLElement | null, csrf: {toString(): string}}} parts */
  constructor({ panel = null, csrf }) {
    this.panel = panel;
    this.csrf = csrf;
  }

  // The chosen server, which may be none.
  /** @param {Chat.Server | undefined} server */
  set server(server) {
    this.lacks = read(server?.lacks);
    const drawn = `${server?.slug} ${server?.lacks}`;
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    this.panel?.replaceChildren(...this.lacks.map((lack) => this.view(lack)));
    const fold = this.panel?.parentElement;
    if (!fold) return;
    fold.hidden = !this.lacks.length;
    find(fold, ".badge", HTMLElement).textContent = String(this.lacks.length || "");
  }

  // A word on this where it is missed, "" when the profile has what it needs.
  /** @param {Chat.LackKey} key */
  hint(key) {
    const lack = this.lacks.find((each) => each.key === key);
    return lack ? this.view(lack) : "";
  }

  // The same under an answer, whose conversation may have many: a line that unfolds.
  /** @param {Chat.LackKey} key */
  remark(key) {
    const hint = this.hint(key);
    if (hint) hint.classList.add("inside");
    return hint && folded(REMARKS[key], `remark remark-${key}`, hint);
  }

  /** @param {Chat.Lack} lack */
  view({ key, says, fix, url, edit }) {
    const action = fix && url
      ? button(`Change the profile: ${fix}`, "", () => this.post(url))
      : edit ? Object.assign(element("a", "", "Edit the profile"), { href: edit }) : "";
    if (action instanceof HTMLButtonElement) action.className = "";
    const made = element("div", "lack", element("p", "", says), action);
    made.dataset.lack = key;
    return made;
  }

  // A plain form: it leads to the profile, which says what was changed.
  /** @param {string} url */
  post(url) {
    const form = Object.assign(document.createElement("form"), { method: "post", action: url });
    const token = Object.assign(document.createElement("input"), { type: "hidden", name: "csrfmiddlewaretoken", value: String(this.csrf) });
    form.append(token);
    document.body.append(form);
    form.submit();
  }
}

/** @param {string | undefined} text @returns {Chat.Lack[]} */
function read(text) {
  try {
    return JSON.parse(text || "[]");
  } catch {
    return []; // a page that is older than what it is sent: it is told to reload
  }
}

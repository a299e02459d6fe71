// What the chosen server's profile lacks for this page, said where it is missed, with the fix.

import { button, element, folded } from "./chat-dom.js";

const REMARKS = {
  tools: "A call of a tool came as text",
  reasoning: "Reasoning came within the text",
  cached: "cached tokens not told",
};

// `lacks` are of the list of servers: [{key, says, fix, url, where}].
export class Abilities {
  constructor({ panel, csrf }) {
    Object.assign(this, { panel, csrf, drawn: "" });
  }

  // The chosen server, which may be none.
  set server(server) {
    this.lacks = read(server?.lacks);
    this.images = { true: true, false: false }[server?.images];
    const drawn = `${server?.slug} ${server?.lacks}`;
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    this.panel.replaceChildren(...this.lacks.map((lack) => this.view(lack)));
    const fold = this.panel.parentElement;
    fold.hidden = !this.lacks.length;
    fold.querySelector(".badge").textContent = this.lacks.length || "";
  }

  // A word on this where it is missed, "" when the profile has what it needs.
  hint(key) {
    const lack = this.lacks?.find((each) => each.key === key);
    return lack ? this.view(lack) : "";
  }

  // The same under an answer, whose conversation may have many: a line that unfolds.
  remark(key) {
    const hint = this.hint(key);
    if (hint) hint.classList.add("inside");
    return hint && folded(REMARKS[key], `remark remark-${key}`, hint);
  }

  view({ key, says, fix, url, edit }) {
    const action = fix && url
      ? button(`Change the profile: ${fix}`, "", () => this.post(url))
      : edit ? Object.assign(element("a", "", "Edit the profile"), { href: edit }) : "";
    if (action.tagName === "BUTTON") action.className = "";
    const made = element("div", "lack", element("p", "", says), action);
    made.dataset.lack = key;
    return made;
  }

  // A plain form: it leads to the profile, which says what was changed.
  post(url) {
    const form = Object.assign(document.createElement("form"), { method: "post", action: url });
    const token = Object.assign(document.createElement("input"), { type: "hidden", name: "csrfmiddlewaretoken", value: this.csrf });
    form.append(token);
    document.body.append(form);
    form.submit();
  }
}

function read(text) {
  try {
    return JSON.parse(text || "[]");
  } catch {
    return []; // a page that is older than what it is sent: it is told to reload
  }
}

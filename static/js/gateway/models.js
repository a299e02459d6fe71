// @ts-check
// The choice of a model: which names there are, and what the lines say.

import { find } from "../page/parts.js";

export class Models {
  /** @param {HTMLElement} use */
  constructor(use) {
    this.use = use;
    this.select = find(use, "#use-model", HTMLSelectElement);
    this.note = find(use, "#use-model-note", HTMLElement);
    this.select.addEventListener("change", () => this.#say());
    this.#say();
  }

  get chosen() {
    return this.select.value;
  }

  // The address of a page about its server, "server" or "playground"; "" where it is not known.
  /** @param {"server" | "playground"} which */
  page(which) {
    const server = this.select.selectedOptions[0]?.dataset.server;
    return server ? (this.use.dataset[which] ?? "").replace("SERVER", server) : "";
  }

  // Those that a key may ask. What is chosen stays so: the lines name it.
  /** @param {Gateway.Model[]} listed */
  offer(listed) {
    const before = this.chosen;
    const servers = grouped(listed);
    /** @type {HTMLElement[]} */
    const groups = [...servers].map(([server, names]) =>
      /** @param {string} label @param {HTMLOptionElement[]} options */
      group(
        `${server}, ${names[0]?.ready ? "ready" : "a request starts it"}`,
        names.map(({ id, why = "" }) => option(id, { server, why })),
      ),
    );
    if (before && !listed.some(({ id }) => id === before)) {
      groups.unshift(group("not for this key, or not there now", [option(before, { why: "Not among the models that this key may use now." })]));
    }
    if (!groups.length) groups.push(option("", { why: "No model to ask: no server is ready, and none is started by a request." }, "none"));
    this.select.replaceChildren(...groups);
    this.select.disabled = !listed.length && !before;
    this.select.value = before || listed[0]?.id || "";
    this.#say();
  }

  #say() {
    const why = this.select.selectedOptions[0]?.dataset.why;
    if (why !== undefined) this.note.textContent = why;
    if (!this.chosen) return;
    for (const each of this.use.querySelectorAll("[data-model]")) each.textContent = this.chosen;
  }
}

/** @param {string} value @param {Record<string, string>} data @param {string} [label] */
function option(value, data, label = value) {
  const made = new Option(label, value);
  Object.assign(made.dataset, data);
  return made;
}

/** @param {string} label @param {HTMLOptionElement[]} options */
function group(label, options) {
  const made = document.createElement("optgroup");
  made.label = label;
  made.append(...options);
  return made;
}

/** @param {Gateway.Model[]} listed */
function grouped(listed) {
  /** @type {Map<string, Gateway.Model[]>} */
  const servers = new Map();
  for (const each of listed) servers.set(each.server, [...(servers.get(each.server) ?? []), each]);
  return servers;
}

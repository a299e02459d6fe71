// @ts-check
// Parameters that the team keeps under names for the chosen server's profile.

import { find } from "../../page/parts.js";


// "pick" has `detail` {params, tools, schema}; `now` gives those that stand in the page.
export class Presets extends EventTarget {
  /** @type {Chat.Preset[]} */
  all = [];
  of = ""; // the server whose they are

  /**
   * @param {{
   *   root: HTMLElement,
   *   url: string | undefined,
   *   csrf: {toString(): string},
   *   servers: Chat.Choice,
   *   now: () => Chat.Settings,
   * }} parts
   */
  constructor({ root, url, csrf, servers, now }) {
    super();
    this.root = root;
    this.url = url;
    this.csrf = csrf;
    this.servers = servers;
    this.now = now;
    this.choice = find(root, "#preset-choice", HTMLSelectElement);
    this.name = find(root, "#preset-name", HTMLInputElement);
    this.saving = find(root, "#preset-save", HTMLElement);
    this.deleting = find(root, "#preset-delete", HTMLElement);
    this.note = find(root, "#preset-note", HTMLElement);
    this.defaults = find(root, "#preset-defaults", HTMLElement);
    servers.addEventListener("change", () => this.look());
    this.choice.addEventListener("change", () => this.pick());
    this.name.addEventListener("input", () => this.title());
    find(root, "#preset-form", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      this.save();
    });
    this.deleting.addEventListener("click", () => this.remove());
    this.look();
  }

  // Tells of what a person has picked.
  /** @param {(picked: Chat.Settings) => void} hear */
  picks(hear) {
    this.addEventListener("pick", (event) => event instanceof CustomEvent && hear(event.detail));
  }

  // Those of the server's profile, once a server.
  async look() {
    const slug = this.servers.find(this.servers.wanted)?.slug ?? "";
    if (!this.url || slug === this.of) return; // no address: not for this person's role
    this.of = slug;
    this.root.hidden = !slug;
    if (slug) await this.ask("");
  }

  /** @param {string} path @param {RequestInit} [more] */
  async ask(path, more = {}) {
    const { of } = this;
    this.note.textContent = "";
    try {
      const response = await fetch(`${this.url}${of}/${path}`, { headers: { "X-CSRFToken": String(this.csrf) }, ...more });
      const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
      const said = isJson ? await response.json() : null;
      if (of !== this.of) return false;
      if (!response.ok || response.redirected) {
        this.note.textContent = said?.message ?? "The presets cannot be had now. Reload the page, then try again.";
        return false;
      }
      if (said) this.draw(said);
      return true;
    } catch {
      this.note.textContent = "inferdash does not answer: the presets are as they were. Try again when it does.";
      return false;
    }
  }

  /** @param {{presets: Chat.Preset[], defaults: string}} said */
  draw({ presets, defaults }) {
    const before = this.choice.value;
    this.all = presets;
    this.choice.replaceChildren(
      new Option(presets.length ? "none" : "No presets", ""),
      ...presets.map(({ id, name, by }) => new Option(by ? `${name} (${by})` : name, String(id))),
    );
    this.choice.value = presets.some(({ id }) => String(id) === before) ? before : "";
    this.choice.disabled = !presets.length;
    this.defaults.textContent = defaults;
    this.title();
  }

  get picked() {
    return this.all.find(({ id }) => String(id) === this.choice.value);
  }

  pick() {
    const { picked } = this;
    this.name.value = picked?.name ?? "";
    this.title();
    const { params, tools, schema } = picked ?? { params: {}, tools: null, schema: null };
    this.dispatchEvent(new CustomEvent("pick", { detail: { params: params ?? {}, tools, schema } }));
  }

  title() {
    const isThere = this.all.some(({ name }) => name === this.name.value.trim());
    this.saving.textContent = isThere ? "Overwrite" : "Save";
    this.deleting.hidden = !this.picked;
  }

  async save() {
    const name = this.name.value.trim();
    const body = JSON.stringify({ name, values: this.now() });
    if (!(await this.ask("", { method: "POST", body, headers: { "X-CSRFToken": String(this.csrf), "Content-Type": "application/json" } }))) return;
    this.choice.value = String(this.all.find((each) => each.name === name)?.id ?? "");
    this.title();
    this.note.textContent = `“${name}” is kept for everybody who talks to this profile.`;
  }

  async remove() {
    const { picked } = this;
    if (!picked || !(await this.ask(`${picked.id}/delete/`, { method: "POST" }))) return;
    this.name.value = "";
    await this.ask("");
    this.note.textContent = `“${picked.name}” is deleted.`;
  }
}

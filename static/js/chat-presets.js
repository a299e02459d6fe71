// Parameters that the team keeps under names for the chosen server's profile.

// "pick" has `detail` {params, tools, schema}; `now` gives those that stand in the page.
export class Presets extends EventTarget {
  constructor({ root, url, csrf, servers, now }) {
    super();
    Object.assign(this, { root, url, csrf, servers, now, all: [], of: "" });
    const $ = (id) => root.querySelector(`#preset-${id}`);
    Object.assign(this, { choice: $("choice"), name: $("name"), saving: $("save"), deleting: $("delete"), note: $("note"), defaults: $("defaults") });
    servers.addEventListener("change", () => this.look());
    this.choice.addEventListener("change", () => this.pick());
    this.name.addEventListener("input", () => this.title());
    $("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.save();
    });
    this.deleting.addEventListener("click", () => this.remove());
    this.look();
  }

  // Those of the server's profile, once a server.
  async look() {
    const slug = this.servers.find(this.servers.wanted)?.slug ?? "";
    if (slug === this.of) return;
    this.of = slug;
    this.root.hidden = !slug;
    if (slug) await this.ask("");
  }

  async ask(path, more = {}) {
    const { of } = this;
    this.note.textContent = "";
    try {
      const response = await fetch(`${this.url}${of}/${path}`, { headers: { "X-CSRFToken": this.csrf }, ...more });
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

  draw({ profile, presets, defaults }) {
    const before = this.choice.value;
    this.all = presets;
    this.choice.replaceChildren(
      new Option(presets.length ? "none" : `none kept for ${profile} yet`, ""),
      ...presets.map(({ id, name, by }) => new Option(by ? `${name} (${by})` : name, id)),
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
    if (!(await this.ask("", { method: "POST", body, headers: { "X-CSRFToken": this.csrf, "Content-Type": "application/json" } }))) return;
    this.choice.value = this.all.find((each) => each.name === name)?.id ?? "";
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

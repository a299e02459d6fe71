// Which servers can answer. The socket keeps the hidden list in the page up to date; this
// shows it as a choice.

export class Servers extends EventTarget {
  constructor({ list, select, here, preselected }) {
    super();
    Object.assign(this, { list, select, here });
    this.wanted = preselected; // a slug; kept while its server is not ready
    select.addEventListener("change", () => {
      this.wanted = select.value;
      this.changed();
    });
    new MutationObserver(() => this.read()).observe(list.parentElement, {
      subtree: true, childList: true, attributes: true,
    });
    this.read();
  }

  read() {
    this.all = [...this.list.parentElement.querySelectorAll("li[data-slug]")].map((item) => ({
      ...item.dataset,
      run: Number(item.dataset.run),
      isReady: item.dataset.state === "ready" && item.dataset.wanted === "running" && item.dataset.box === this.here,
    }));
    const ready = this.all.filter((server) => server.isReady);
    if (!this.find(this.wanted) && ready.length) this.wanted = ready[0].slug;
    this.drawChoice(ready);
    this.changed();
  }

  drawChoice(ready) {
    const options = ready.map((server) => new Option(`${server.slug} · ${server.model}`, server.slug));
    const wanted = this.find(this.wanted);
    if (wanted && !wanted.isReady) options.unshift(new Option(`${wanted.slug} (${stateOf(wanted)})`, wanted.slug));
    if (!options.length) options.push(new Option("no server is ready", ""));
    this.select.replaceChildren(...options);
    this.select.value = wanted?.slug ?? "";
    this.select.disabled = options.length < 2 && !ready.length;
  }

  find(slug) {
    return this.all?.find((server) => server.slug === slug);
  }

  // The one that a conversation was with last, ready or not; another where that one is gone.
  prefer(slug) {
    if (!this.find(slug)) return;
    this.wanted = slug;
    this.read();
  }

  // The chosen server when it can answer, else null.
  get chosen() {
    const server = this.find(this.wanted);
    return server?.isReady ? server : null;
  }

  get starting() {
    return this.all.filter((s) => ["queued", "pulling", "creating", "starting"].includes(s.state));
  }

  // Why the chosen server cannot answer; "" when it can.
  get problem() {
    const server = this.find(this.wanted);
    if (!server) return "No server is ready.";
    if (server.isReady) return "";
    if (server.box !== this.here) return `${server.slug} runs on ${server.box}, which the playground here does not reach.`;
    return `${server.slug} is ${stateOf(server)}. You can send as soon as it is ready, or pick another server.`;
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }
}

const stateOf = (server) =>
  server.state === "ready" && server.wanted !== "running" ? "about to stop" : server.state || "not started";

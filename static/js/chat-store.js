// Conversations, kept in this browser: one entry each, so that two tabs do not overwrite
// each other's.

export const CUT_OFF = {
  message: "The page was closed while this answer was arriving. What had arrived is kept. Retry to ask again.",
  detail: "",
};

export const newAnswer = (server) => ({
  role: "assistant", server: server.slug, url: server.url, model: server.model,
  content: "", reasoning: "", calls: [], usage: null, chunks: 0, finish: "",
  firstMs: null, spanMs: null, reasonedMs: null, stopped: false, error: null, running: true,
});

export class Store {
  constructor(user) {
    this.prefix = `inferdash.chat.${user}.`;
    this.running = new Set(); // conversations that this tab writes to right now
  }

  list() {
    return Object.keys(localStorage)
      .filter((key) => key.startsWith(this.prefix))
      .map((key) => this.read(key))
      .filter(Boolean)
      .sort((a, b) => b.updated - a.updated);
  }

  get(id) {
    return this.read(this.prefix + id);
  }

  read(key) {
    try {
      const conversation = JSON.parse(localStorage.getItem(key));
      if (!Array.isArray(conversation?.messages)) return null;
      for (const message of conversation.messages) {
        if (message.running && !this.running.has(conversation.id)) {
          message.running = false;
          message.error ??= CUT_OFF;
        }
      }
      return conversation;
    } catch {
      return null; // not ours, or damaged: it is left alone
    }
  }

  // False when the browser's storage is full.
  save(conversation) {
    conversation.updated = Date.now();
    try {
      localStorage.setItem(this.prefix + conversation.id, JSON.stringify(conversation));
      return true;
    } catch {
      return false;
    }
  }

  remove(id) {
    localStorage.removeItem(this.prefix + id);
  }

  create(params, server) {
    // randomUUID exists on https and localhost only.
    const id = `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;
    return { id, name: "", params: { ...params }, server, messages: [], updated: Date.now() };
  }
}

export function titleOf(conversation) {
  const first = conversation.messages.find((message) => message.role === "user");
  return conversation.name || first?.content.trim().split("\n")[0].slice(0, 60) || "New conversation";
}

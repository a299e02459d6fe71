// Messages as the tests of the playground say them.

export const question = (content, more = {}) => ({ role: "user", content, ...more });

export const answer = (content, more = {}) => ({
  role: "assistant", server: "tiny", url: "/servers/tiny/", model: "tiny-qwen",
  content, reasoning: "", calls: [], usage: null, chunks: 1, finish: "stop",
  firstMs: 1, spanMs: 1, reasonedMs: null, stopped: false, error: null, running: false, ...more,
});

export const call = (id, name, args) => ({ id, name, arguments: args });

export const result = (id, content) => ({ role: "tool", tool_call_id: id, name: "x", content });

export const conversation = (messages, more = {}) => ({
  id: "c1", name: "", server: "tiny", params: {}, tools: null, schema: null, updated: 1,
  every: [...messages], messages: [...messages], ...more,
});

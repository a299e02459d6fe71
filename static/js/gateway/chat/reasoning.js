// @ts-check
// What of an answer is its reasoning, in every form in which engines send it.

// Without a reasoning parser it stands in the text, between the model's own tags.
/** @type {[open: string, close: string][]} */
const TAGS = [
  ["<think>", "</think>"],
  ["<thinking>", "</thinking>"],
  ["[THINK]", "[/THINK]"],
  ["<seed:think>", "</seed:think>"],
  ["<|channel|>analysis<|message|>", "<|end|>"],
];
const FINAL = /^<\|start\|>assistant<\|channel\|>final<\|message\|>/;

// {thinking, text, inText}: inText says that the reasoning came as a part of the text.
/** @param {Pick<Chat.Answer, "content" | "reasoning">} answer */
export function split(answer) {
  const { content, reasoning } = answer;
  for (const [open, close] of TAGS) {
    const found = between(content, open, close);
    if (found) return { thinking: reasoning + found.thinking, text: found.text, inText: true };
  }
  const alone = reasoning ? null : unopened(content);
  return alone ?? { thinking: reasoning, text: content, inText: false };
}

/** @param {string} content @param {string} open @param {string} close */
function between(content, open, close) {
  const start = content.length - content.trimStart().length;
  if (!content.startsWith(open, start)) return null;
  const from = start + open.length;
  const end = content.indexOf(close, from);
  if (end < 0) return { thinking: content.slice(from), text: "" };
  return { thinking: content.slice(from, end), text: content.slice(end + close.length).trimStart().replace(FINAL, "") };
}

// Some templates open the tag in the prompt, so that only the closing one is seen: then it must
// stand on a line of its own.
/** @param {string} content */
function unopened(content) {
  const close = content.match(/(?:^|\n)[ \t]*(?:<\/think(?:ing)?>|\[\/THINK\]|<\/seed:think>)[ \t]*(?:\n|$)/);
  if (!close) return null;
  return {
    thinking: content.slice(0, close.index ?? 0),
    text: content.slice((close.index ?? 0) + close[0].length).trimStart(),
    inText: true,
  };
}

// How long it was, in tokens: {tokens, isEstimate}; null when nobody can tell.
/** @param {Pick<Chat.Answer, "content" | "reasoning" | "usage" | "calls">} answer */
export function reasoningTokens(answer) {
  const { usage } = answer;
  const said = usage?.completion_tokens_details?.reasoning_tokens ?? usage?.reasoning_tokens;
  // Engines without a reasoning parser count none, whatever the text holds.
  if (said && said > 0) return { tokens: said, isEstimate: false };
  const { thinking, text } = split(answer);
  const total = usage?.completion_tokens;
  if (!thinking || !total) return null;
  const written = text.length + answer.calls.reduce((sum, call) => sum + (call?.arguments.length ?? 0), 0);
  const share = thinking.length / (thinking.length + written);
  return { tokens: Math.max(1, Math.round(total * share)), isEstimate: written > 0 };
}

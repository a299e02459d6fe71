// @ts-check
// Versions of what was said. A conversation has `every` message that there ever was, in the order in
// which they came, and `messages`, the path through them that is shown. A message follows its
// `parent`, a place in `every`; one without follows the message before it, and -1 is none.

/** @param {Chat.Message[]} every @param {number} at */
export const parentAt = (every, at) => every[at]?.parent ?? at - 1;

/** @param {Chat.Message[]} every @param {number} leaf */
export function path(every, leaf) {
  /** @type {Chat.Message[]} */
  const found = [];
  for (let at = leaf; at >= 0; at = parentAt(every, at)) {
    const message = every[at];
    if (message) found.push(message);
  }
  return found.reverse();
}

// How much has come of an answer.
/** @param {Chat.Answer} answer */
export const sizeOf = ({ content, reasoning, calls }) => content.length + reasoning.length + JSON.stringify(calls).length;

// As it is kept, {messages, leaf}, from what the page has; and the other way round.
/** @param {Chat.Conversation} conversation @returns {Chat.Kept} */
export function stored({ every, messages, ...rest }) {
  return { ...rest, messages: every, leaf: leafOf({ every, messages }) };
}

/** @template {Chat.Kept} T @param {T} kept */
export function shown({ messages: every, leaf, ...rest }) {
  return { ...rest, every, messages: path(every, Math.min(leaf ?? Infinity, every.length - 1)) };
}

/** @param {Pick<Chat.Conversation, "every" | "messages">} conversation */
export const leafOf = ({ every, messages }) => {
  const last = messages.at(-1);
  return last ? every.indexOf(last) : null;
};

// Put a message behind what is shown: beside what followed there before.
/** @param {Pick<Chat.Conversation, "every" | "messages">} conversation @param {Chat.Message} message */
export function follow({ every, messages }, message) {
  const parent = leafOf({ every, messages }) ?? -1;
  if (parent !== every.length - 1) message.parent = parent;
  every.push(message);
  messages.push(message);
}

// Let a conversation, of which nothing is kept yet, begin with copies of these.
/** @param {Chat.Conversation} conversation @param {Chat.Message[]} messages */
export function begin(conversation, messages) {
  conversation.every = messages.map((message) => {
    const { parent: _parent, ...copy } = structuredClone(message);
    return copy;
  });
  conversation.messages = [...conversation.every];
}

// An answer in which nothing has come is no version of anything.
/** @param {Pick<Chat.Conversation, "every" | "messages">} conversation @param {Chat.Answer} answer */
export function forgetEmpty({ every, messages }, answer) {
  const isEmpty = !answer.content && !answer.reasoning && !answer.calls.length;
  if (!isEmpty || every.at(-1) !== answer) return;
  every.pop();
  if (messages.at(-1) === answer) messages.pop();
}

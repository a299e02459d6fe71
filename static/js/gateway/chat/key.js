// @ts-check
// Keys of conversations, answers and comparisons.

export const newKey = () =>
  // randomUUID exists on https and localhost only.
  `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;

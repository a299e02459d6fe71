// @ts-check
// Hides secrets in what was typed into a form, before a browser keeps it.

// As servers/launch/commandline/text_boxes.py tells them, anywhere in a text.
const NAMED = /\b((?:\w*_)?(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_\w*)?\s*[=:][ \t]*)("[^"]*"|'[^']*'|[^\s,]+)/gi;
const FLAGS = /(--api-key|--admin-api-key|--hf-token|-hft)(=|[ \t]+)("[^"]*"|'[^']*'|\S+)/g;
const TOKENS = /\b(?:hf_|sk-|nvapi-|ghp_)[A-Za-z0-9_-]{8,}/g;

/** @param {string} text @param {string} mask what stands for a secret that the server keeps */
export function hide(text, mask) {
  return text
    .replace(NAMED, (whole, name, value) => (value === mask ? whole : name))
    .replace(FLAGS, (whole, name, joint, value) => (value === mask ? whole : name + joint))
    .replace(TOKENS, "");
}

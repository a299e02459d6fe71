// @ts-check
// The clipboard, where browsers offer one and where they do not, and buttons that copy.

import { icon } from "./toast.js";

// Whether the text is there now.
/** @param {string} text @returns {Promise<boolean>} */
export async function copy(text) {
  // Browsers offer the clipboard to https and localhost only; a box on the LAN has neither.
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(() => true, () => false);
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}

// A button that copies a text and says so.
const SAID_FOR = 1500; // ms

/** @param {string} title @param {() => string} text @param {string} [label] */
export function copyButton(title, text, label = "Copy") {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet copy harmless";
  button.textContent = label;
  button.setAttribute("aria-label", title);
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text())) ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = label), SAID_FOR);
  });
  return button;
}

/** @param {string} title @param {() => string} text */
export function copyIconButton(title, text) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "faint icon-button harmless";
  button.ariaLabel = button.title = title;
  button.append(icon("copy"));
  button.addEventListener("click", async () => {
    const isCopied = await copy(text());
    button.replaceChildren(isCopied ? icon("check") : icon("failed"));
    button.ariaLabel = button.title = isCopied ? "Copied" : "Not copied";
    setTimeout(() => {
      button.replaceChildren(icon("copy"));
      button.ariaLabel = button.title = title;
    }, SAID_FOR);
  });
  return button;
}

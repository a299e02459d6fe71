// @ts-check
// A button that copies a text and says so.

import { copy } from "../../page/clipboard.js";

const SAID_FOR = 1500; // ms

/** @param {string} title @param {() => string} text @param {string} [label] */
export function copyButton(title, text, label = "Copy") {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet copy";
  button.textContent = label;
  button.setAttribute("aria-label", title);
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text())) ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = label), SAID_FOR);
  });
  return button;
}

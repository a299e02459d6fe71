// @ts-check
// Says what became of a button whose request was refused or never arrived.

import { around, byId } from "./parts.js";

const trouble = byId("trouble", HTMLElement);

/** @param {string} text */
function say(text) {
  const line = document.createElement("p");
  line.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "Close";
  close.addEventListener("click", () => trouble.replaceChildren());
  trouble.replaceChildren(line, close);
}

/** @type {Record<number, string>} */
const WORDS = {
  403: "You may not do this. An admin can change your role under Settings.",
  404: "This is gone: somebody removed it. Reload the page.",
};

document.addEventListener("htmx:after:request", async (event) => {
  const { response, text } = event.detail.ctx;
  const button = around(event, "[data-then]", HTMLElement);
  if (response && response.status < 400) {
    // An answer with text is a question, in a dialog of this page.
    if (button?.dataset.then !== undefined && response.status === 204) location.assign(button.dataset.then);
    return;
  }
  const type = response?.headers?.get("Content-Type") ?? "";
  const said = type.startsWith("text/plain") ? text : "";
  say(said || WORDS[response?.status ?? 0] || `inferdash answered with error ${response?.status}. Its log says why; then try again.`);
});

document.addEventListener("htmx:error", (event) => {
  if (event.detail.ctx) say("inferdash could not be reached, so nothing was done. Is it still running? Then try again.");
});

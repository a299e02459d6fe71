// @ts-check
// Buttons that copy: data-copy names the element whose text it is.

import { copy } from "./clipboard.js";
import { around, byId, find } from "./parts.js";

const SAID_FOR = 1500; // ms

document.addEventListener("click", async (event) => {
  const button = around(event, "button[data-copy]", HTMLElement);
  if (!button?.dataset.copy) return;
  const label = button.textContent;
  button.textContent = (await copy(find(document, button.dataset.copy, HTMLElement).textContent)) ? "Copied" : "Not copied";
  byId("announcements", HTMLElement).textContent = button.textContent;
  setTimeout(() => (button.textContent = label), SAID_FOR);
});

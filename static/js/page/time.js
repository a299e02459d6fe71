// @ts-check
// Keeps relative times true while a page is open.

import { relative, span } from "./ago.js";
import { all } from "./parts.js";

function refresh() {
  for (const element of all(document, "time[data-show=ago], time[data-show=since]", HTMLTimeElement)) {
    const seconds = (Date.now() - Date.parse(element.dateTime)) / 1000;
    const text = element.dataset.show === "ago" ? relative(seconds, element.dateTime) : span(seconds);
    if (element.textContent !== text) element.textContent = text;
  }
}

refresh();
setInterval(refresh, 1000);

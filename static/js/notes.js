// Notes that people wrote in Markdown, shown as such; without this they are plain text.

import { MarkdownView } from "./markdown.js";

for (const notes of document.querySelectorAll(".notes")) {
  const text = notes.textContent;
  notes.classList.add("markdown");
  new MarkdownView(notes).finish(text);
}

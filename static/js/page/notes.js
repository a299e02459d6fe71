// @ts-check
// Notes that people wrote in Markdown, shown as such; without this they are plain text.

import { MarkdownView } from "../gateway/chat/markdown.js";
import { all } from "./parts.js";

for (const notes of all(document, ".notes", HTMLElement)) {
  const text = notes.textContent;
  notes.classList.add("markdown");
  new MarkdownView(notes).finish(text);
}

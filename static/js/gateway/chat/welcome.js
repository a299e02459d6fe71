// @ts-check
// What stands where nothing has been said yet: who answers, and three questions to begin with.

import { button, element } from "../../page/dom.js";

const EXAMPLES = [
  { title: "Explain", text: "Explain how paged attention saves GPU memory, for somebody who knows operating systems." },
  { title: "Write code", text: "Write a Python function that merges overlapping intervals, with tests." },
  { title: "Compare", text: "Compare FP8, NVFP4 and AWQ weights in a table: size, speed, quality, hardware." },
];

/** @param {Chat.Server} server @param {(text: string) => void} pick */
export function welcome(server, pick) {
  const cards = EXAMPLES.map(({ title, text }) => {
    const made = button("", "", () => pick(text));
    made.className = "example";
    made.append(element("strong", "", title), element("span", "quiet", text));
    return element("li", "", made);
  });
  return [element("h2", "", "Ask ", element("span", "welcome-model", server.model || server.slug)), element("ul", "examples", ...cards)];
}

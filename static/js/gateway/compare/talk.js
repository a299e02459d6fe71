// @ts-check
// What a comparison needs once something is said in it: it comes with the first question.

import { fetchStyle } from "../../page/fetch-part.js";

export { outcome, receive } from "../chat/answering.js";
export { history, turnsOf } from "../chat/request.js";
export { Asking } from "./asking.js";
export { Turn } from "./turns.js";
export { change, versionsView } from "../chat/version-switch.js";
export { attached } from "../chat/pictures.js";

await Promise.all(["markdown", "chat-answer", "chat-details", "compare-answer"].map((name) => fetchStyle(`gateway/${name}.css`)));

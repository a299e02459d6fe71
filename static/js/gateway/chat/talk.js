// @ts-check
// What a conversation needs once something is said in it: it comes with its first message.

import { fetchStyle } from "../../page/fetch-part.js";

export { Abilities } from "./abilities.js";
export { outcome, receive } from "./answering.js";
export { viewOf } from "./message.js";
export { asked, history, resultsOf } from "./request.js";
export { Transcript } from "./transcript.js";
export { turn, versionsView } from "./version-switch.js";

await Promise.all(["markdown", "chat-answer", "chat-details"].map((name) => fetchStyle(`gateway/${name}.css`)));

// @ts-check
// DOMPurify as a module, from its minified script, which is half as large as its module.

import { runScript } from "./script.js";

/** @import DOMPurify from "../../vendor/dompurify/purify.es.mjs" */

await runScript("vendor/dompurify/purify.min.js");

/** @type {typeof DOMPurify} */
const library = /** @type {any} */ (globalThis).DOMPurify;
export default library;

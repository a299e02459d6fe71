// @ts-check
// KaTeX as a module, from its minified script.

import { runScript } from "./script.js";

await runScript("vendor/katex/katex.min.js");

/** @type {{renderToString(tex: string, options: object): string, ParseError: new () => Error}} */
const library = /** @type {any} */ (globalThis).katex;
export default library;

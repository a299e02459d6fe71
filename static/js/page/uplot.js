// @ts-check
// uPlot as a module. Its own module is not minified: the script that it also brings is half as large.

import { runScript } from "./script.js";

/** @import uPlot from "../../vendor/uplot/uPlot.esm.js" */

await runScript("vendor/uplot/uPlot.iife.min.js");

/** @type {typeof uPlot} */
const library = /** @type {any} */ (globalThis).uPlot;
export default library;

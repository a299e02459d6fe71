// @ts-check
// uPlot as a module. Its own module is not minified: the script that it also brings is half as large.

/** @import uPlot from "../../vendor/uplot/uPlot.esm.js" */

await new Promise((resolve, reject) => {
  const script = document.createElement("script");
  script.src = new URL("../../vendor/uplot/uPlot.iife.min.js", import.meta.url).href;
  script.addEventListener("load", resolve);
  script.addEventListener("error", reject);
  document.head.append(script);
});

/** @type {typeof uPlot} */
const library = /** @type {any} */ (globalThis).uPlot;
export default library;

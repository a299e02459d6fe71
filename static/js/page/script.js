// @ts-check
// Scripts of packages whose modules are not minified.

/** @param {string} address below static/ */
export async function runScript(address) {
  await new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL(`../../${address}`, import.meta.url).href;
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new TypeError(`${address} could not be loaded.`)));
    document.head.append(script);
  });
}

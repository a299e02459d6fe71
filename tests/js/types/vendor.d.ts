// The packages of node_modules under the addresses at which pages have them.

declare module "*/vendor/uplot/uPlot.esm.js" {
  import uPlot from "uplot";
  export default uPlot;
}

declare module "*/vendor/marked/marked.esm.js" {
  export * from "marked";
}

declare module "*/vendor/dompurify/purify.es.mjs" {
  import DOMPurify from "dompurify";
  export default DOMPurify;
}

// It brings no types: this is what is used of it.
declare module "*/vendor/highlight/core.min.js" {
  const hljs: {
    getLanguage(name: string): object | undefined;
    registerLanguage(name: string, grammar: unknown): void;
    highlight(code: string, options: { language: string; ignoreIllegals?: boolean }): { value: string };
  };
  export default hljs;
}

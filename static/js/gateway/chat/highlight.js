// @ts-check
// Code in colours. The package's core and each language come when a block of that language is shown.

import hljs from "../../../vendor/highlight/core.min.js";

// By the names of the package's files; others stay plain.
const LANGUAGES = new Set([
  "bash", "c", "cmake", "cpp", "csharp", "css", "dart", "diff", "dockerfile", "elixir", "erlang", "go", "graphql", "haskell",
  "http", "ini", "java", "javascript", "json", "julia", "kotlin", "latex", "less", "lisp", "llvm", "lua", "makefile", "markdown",
  "matlab", "nginx", "nix", "objectivec", "ocaml", "perl", "pgsql", "php", "powershell", "protobuf", "python", "r", "ruby", "rust",
  "scala", "scss", "shell", "sql", "swift", "typescript", "verilog", "vhdl", "vim", "wasm", "x86asm", "xml", "yaml",
]);
/** @type {Record<string, string>} */
const ALIASES = {
  asm: "x86asm", "c#": "csharp", "c++": "cpp", cc: "cpp", console: "shell", cs: "csharp", cuda: "cpp", cxx: "cpp", docker: "dockerfile",
  golang: "go", h: "c", hpp: "cpp", hs: "haskell", htm: "xml", html: "xml", js: "javascript", jsonc: "json", jsx: "javascript",
  kt: "kotlin", make: "makefile", md: "markdown", mjs: "javascript", ml: "ocaml", "objective-c": "objectivec", objc: "objectivec",
  patch: "diff", pl: "perl", postgresql: "pgsql", proto: "protobuf", ps1: "powershell", py: "python", py3: "python", python3: "python",
  rb: "ruby", rs: "rust", sh: "bash", svg: "xml", tex: "latex", toml: "ini", ts: "typescript", tsx: "typescript", vue: "xml",
  xhtml: "xml", yml: "yaml", zsh: "bash",
};

// As markup, which holds nothing but <span class="hljs-…"> and escaped text; null for a language that is none of these.
/** @param {string} code @param {string} named @returns {Promise<string | null>} */
export async function highlighted(code, named) {
  const language = ALIASES[named.toLowerCase()] ?? named.toLowerCase();
  if (!LANGUAGES.has(language)) return null;
  if (!hljs.getLanguage(language)) {
    const { default: grammar } = await import(`../../../vendor/highlight/languages/${language}.min.js`);
    hljs.registerLanguage(language, grammar);
  }
  return hljs.highlight(code, { language, ignoreIllegals: true }).value;
}

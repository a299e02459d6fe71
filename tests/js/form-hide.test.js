// What a browser keeps of an unsaved profile form has no secrets in it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hide } from "../../static/js/profiles/form/hide.js";

const MASK = "••••••••";

/** @type {[string, string][]} */
const CASES = [
  ["HF_TOKEN=hf_abcdefghijkl\nNCCL_P2P_LEVEL=SYS", "HF_TOKEN=\nNCCL_P2P_LEVEL=SYS"],
  ["export MY_API_KEY='two words'  # of the team", "export MY_API_KEY=  # of the team"],
  ["DB_PASSWORD: hunter2", "DB_PASSWORD: "],
  ["--api-key sesame --max-model-len 8192", "--api-key  --max-model-len 8192"],
  ["--hf-token=sesame", "--hf-token="],
  ["ENV PIP=https://me:ghp_abcdefghijk@host", "ENV PIP=https://me:@host"],
  // What the server keeps is only a mask here, and stays the way to say so.
  [`HF_TOKEN=${MASK}`, `HF_TOKEN=${MASK}`],
  ["--tokenizer a/b --max-num-batched-tokens 8192", "--tokenizer a/b --max-num-batched-tokens 8192"],
  ["TOKENIZERS_PARALLELISM=false\nKEYBOARD=us", "TOKENIZERS_PARALLELISM=false\nKEYBOARD=us"],
];

test("secrets are hidden, and nothing else", () => {
  for (const [text, kept] of CASES) assert.equal(hide(text, MASK), kept);
});

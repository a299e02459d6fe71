// What stands before an engine's words: level and time have columns of their own.

import assert from "node:assert/strict";
import { test } from "node:test";

import { prefix } from "../../static/js/logs/prefix.js";

// The line, its level, what is left without level and time, and what of that is only where it is from.
const LINES = [
  ["INFO 11-21 10:00:00 [core.py:12] Starting up", "INFO", "[core.py:12] Starting up", "[core.py:12] "],
  ["(VllmWorker TP1 pid=8) ERROR 11-21 10:00:03 [worker.py:5] CUDA out", "ERROR", "(VllmWorker TP1 pid=8) [worker.py:5] CUDA out", "(VllmWorker TP1 pid=8) [worker.py:5] "],
  ["(EngineCore pid=271) ValueError: no", "", "(EngineCore pid=271) ValueError: no", "(EngineCore pid=271) "],
  ["(ServeReplica:default:LLM pid=77) INFO 11-21 10:00:00 [x.py:2] a", "INFO", "(ServeReplica:default:LLM pid=77) [x.py:2] a", "(ServeReplica:default:LLM pid=77) [x.py:2] "],
  ["[2026-03-30 14:21:44 DP0 TP1] Decode batch", "", "DP0 TP1 Decode batch", "DP0 TP1"],
  ["[2026-03-30 14:21:44] The server is fired up", "", "The server is fired up", ""],
  ["INFO:     Started server process [1]", "INFO", "Started server process [1]", ""],
  ["0.00.608.103 W srv  load_model: slow", "WARN", "srv  load_model: slow", ""],
  ["2026-05-30 07:47:00,209 - CRITICAL - x.py:6 - y", "ERROR", "x.py:6 - y", "x.py:6 - "],
  ["2025-03-05 08:58:54 | ERROR | stderr", "ERROR", "stderr", ""],
  ["2025-03-05 08:58:54 hello", "", "hello", ""],
  ["[rank3]: Traceback", "", "[rank3]: Traceback", "[rank3]: "],
  ["INFO:     ", "INFO", "INFO:     ", ""],
  ["Loading 4 shards at 10:00:00", "", "Loading 4 shards at 10:00:00", ""],
  ["", "", "", ""],
];

for (const [line, level, left, aside] of LINES) {
  test(`the prefix of “${line}”`, () => {
    const said = prefix(line);
    const cut = (part) => said.parts.filter((each) => each[2] === part);
    let shown = line;
    for (const [from, to] of cut("own").reverse()) shown = shown.slice(0, from) + shown.slice(to);
    assert.deepEqual([said.level, shown, cut("aside").map(([from, to]) => line.slice(from, to)).join("")], [level, left, aside]);
  });
}

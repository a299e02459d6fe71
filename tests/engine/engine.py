"""The test engine: starts up as a real one does, by a script, then answers like one.

ENGINE_SCRIPT says how the start goes, ENGINE_SECONDS how long it takes. The chat itself is
played by scripted_engine.py, from a script in the question.
"""

import argparse
import asyncio
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable

from scripted_engine import ScriptedEngine

SECONDS = float(os.environ.get("ENGINE_SECONDS", "1"))
BLUE, RESET = "\x1b[1;34m", "\x1b[0m"
TRACEBACK = """\
Traceback (most recent call last):
  File "/opt/engine/worker.py", line 214, in load_model
    weights = allocate(config)
RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\
"""


def say(text: str, *, end: str = "\n", stream: str = "stdout") -> None:
    file = getattr(sys, stream)
    file.write(text + end)
    file.flush()


def bar(title: str, count: int, seconds: float) -> None:
    """As tqdm draws it: a carriage return a refresh, or the newline of TQDM_BAR_FORMAT."""
    as_lines = os.environ.get("TQDM_BAR_FORMAT", "").endswith("\n")
    for done in range(count + 1):
        share = done / count
        drawn = "█" * round(share * 10)
        text = f"{title}: {share:4.0%}|{drawn:<10}| {done}/{count} [00:{done:02d}<00:{count - done:02d}]"
        say(text if as_lines else "\r" + text, end="\n" if as_lines else "", stream="stderr")
        time.sleep(seconds / count)
    if not as_lines:
        say("", stream="stderr")


def normal() -> None:
    say(f"{BLUE}INFO{RESET} 11-21 08:00:01 [api_server.py:1937] version 0.33.0-test")
    say(f"{BLUE}INFO{RESET} 11-21 08:00:02 [model.py:547] Resolved architecture: TestForCausalLM")
    bar("Loading safetensors checkpoint shards", 5, SECONDS * 0.5)
    say("INFO 11-21 08:00:05 [gpu_model_runner.py:4400] Model loading took 1.2 GiB")
    bar("Capturing CUDA graphs (decode, FULL)", 4, SECONDS * 0.4)
    time.sleep(SECONDS * 0.1)
    say(f"{BLUE}INFO{RESET} 11-21 08:00:09 [launcher.py:37] Application startup complete.")


def flood() -> None:
    lines = int(os.environ.get("ENGINE_LINES", "100000"))
    for batch in (
        itertools.batched(range(lines), 1000)
        if hasattr(itertools, "batched")
        else (range(start, min(start + 1000, lines)) for start in range(0, lines, 1000))
    ):
        sys.stdout.write("".join(f"line {number} of the flood\n" for number in batch))
    sys.stdout.flush()


def colours() -> None:
    for code in (*range(30, 38), *range(90, 98)):
        say(
            f"\x1b[{code}mcolour {code}\x1b[0m plain \x1b[1mbold\x1b[22m \x1b[38;5;{code}mof 256\x1b[0m"
        )
    say("<b data-hx-get='/x/' hx-get='/x/'>not markup</b>")


def crash() -> None:
    say("INFO 11-21 08:00:01 [api_server.py:1937] version 0.33.0-test")
    say(TRACEBACK, stream="stderr")
    sys.exit(1)


def exit_zero() -> None:
    say("[2026-11-21 08:00:01 TP0] Scheduler hit an exception", stream="stderr")
    sys.exit(0)


def oom() -> None:
    say("allocating")
    hoard = []
    while True:
        hoard.append(bytearray(os.urandom(1 << 20) * 16))


def hang() -> None:
    say("INFO Capturing CUDA graphs")
    signal.pause()


def silent() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stubborn() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    normal()


SCRIPTS: dict[str, Callable[[], None]] = {
    "normal": normal,
    "flood": flood,
    "colours": colours,
    "crash": crash,
    "exit-zero": exit_zero,
    "oom": oom,
    "hang": hang,
    "silent": silent,
    "stubborn": stubborn,
}


async def serve(host: str, port: int, model: str, script: str) -> None:
    engine = ScriptedEngine(port=port, host=host)
    engine.answers["/v1/models"] = (200, json.dumps({"data": [{"id": model}]}))
    engine.answers["/version"] = (200, json.dumps({"version": "0.33.0-test"}))
    engine.hooks["/metrics"] = lambda: engine.answers.update(
        {
            "/metrics": (
                200,
                f'vllm:num_requests_running{{engine="0"}} {engine.running}\n'
                f'vllm:num_requests_waiting{{engine="0"}} 0\n'
                f'vllm:generation_tokens_total{{engine="0"}} {len(engine.requests) * 10}\n',
            )
        }
    )
    engine.hooks["/die"] = lambda: os._exit(3)
    loop = asyncio.get_running_loop()
    server = await engine.listen()
    if script != "stubborn":

        async def drain() -> None:
            say("INFO Shutting down")
            server.close()
            while engine.running:
                await asyncio.sleep(0.02)
            os._exit(0)

        loop.add_signal_handler(signal.SIGTERM, lambda: loop.create_task(drain()))
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", default="")
    known, rest = parser.parse_known_args()
    model = known.served_model_name or next((word for word in rest if word[0] != "-"), "test")
    script = os.environ.get("ENGINE_SCRIPT", "normal")
    say(f"engine pid {os.getpid()}: {script}, {' '.join(rest)}")
    SCRIPTS[script]()
    asyncio.run(serve(known.host, known.port, model, script))


if __name__ == "__main__":
    main()

"""The test engine: starts up as a real one does, then answers like one. Standard library only.

`python -m tests.engine [vllm serve | python3 -m sglang.launch_server | llama-server] FLAGS`,
in the image inferdash-test/engine or right on the machine. It obeys the flags for model, name,
host, port and metrics, and

    ENGINE_SCRIPT           a start of starts/, or "stubborn", which also ignores SIGTERM
    ENGINE_SECONDS          how long the start takes
    ENGINE_HOLDS            "1": after it, it still loads until SIGUSR1 comes
    ENGINE_FLAVOR           vllm, sglang, llamacpp; else by the command
    ENGINE_IGNORES_SIGTERM  "loading" or "always". Otherwise as it comes: deadly while it loads,
                            but not to PID 1; when it serves, running requests end first
    ENGINE_FITS             with a larger --gpu-memory-utilization (or none: 0.92) it runs out of
                            memory, as in starts/crash.txt
    ENGINE_TOKENS_PER_SECOND
    VLLM_SERVER_DEV_MODE    with --enable-sleep-mode it can be put to sleep

Their own benchmark programs are in bench.py.

GET /stats tells of the chats it has seen, GET /die ends it with code 3, and after GET /wedge its
scheduler is dead: it takes chats and generates nothing, and its health stays green. answers.py
says what can be asked.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

from tests.engine import answers, bench
from tests.engine.replay import HOLDS, Replay
from tests.scripted_engine import EngineScript, ScriptedEngine, Sleeper

PROGRAMS = {
    ("vllm", "serve"): "vllm",
    ("python3", "-m", "sglang.launch_server"): "sglang",
    ("sglang", "serve"): "sglang",
    ("llama-server",): "llamacpp",
    ("/app/llama-server",): "llamacpp",
}
BENCHES = {
    ("vllm", "bench", "serve"): "vllm",
    ("python3", "-m", "sglang.bench_serving"): "sglang",
    ("llama-bench",): "llama-bench",
}
PORTS = {"vllm": 8000, "sglang": 30000, "llamacpp": 8080}
HOSTS = {"vllm": "0.0.0.0", "sglang": "127.0.0.1", "llamacpp": "127.0.0.1"}
VERSION = "0.33.0-test"
DEV_MODE = os.environ.get("VLLM_SERVER_DEV_MODE") == "1"
LOADING = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
GAUGES = {
    "vllm": ("vllm:num_requests_running", "vllm:num_requests_waiting"),
    "sglang": ("sglang:num_running_reqs", "sglang:num_queue_reqs"),
    "llamacpp": ("llamacpp:requests_processing", "llamacpp:requests_deferred"),
}
COUNTERS = {
    "vllm": "vllm:generation_tokens_total",
    "sglang": "sglang:generation_tokens_total",
    "llamacpp": "llamacpp:tokens_predicted_total",
}


class TestEngine:
    def __init__(self, flavor: str, flags: argparse.Namespace) -> None:
        self.flavor = flavor
        self.flags = flags
        self.names: list[str] = flags.served_model_name or [flags.model or "test"]
        self.is_ready = False
        self.is_wedged = False
        self.server: asyncio.Server | None = None
        self.http = ScriptedEngine(
            port=flags.port or _untold_port(flavor),
            host=flags.host or os.environ.get("LLAMA_ARG_HOST") or HOSTS[flavor],
            plan=self._plan,
            answers={"/health": (503, json.dumps(LOADING))},
            hooks={
                "/metrics": self._metrics,
                "/stats": self._stats,
                "/slots": self._slots,
                "/die": lambda: os._exit(3),
                "/wedge": self._wedge,
            },
            sleeper=Sleeper() if flags.enable_sleep_mode and DEV_MODE else None,
        )

    async def run(self, script: str, ignores: str) -> None:
        loop = asyncio.get_running_loop()
        for_ever = asyncio.Event()
        may_go_on = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, may_go_on.set)
        # llama.cpp answers 503 from the first moment; the others refuse connections.
        if self.flavor == "llamacpp":
            await self.listen()

        def warm() -> None:
            asyncio.run_coroutine_threadsafe(self.listen(), loop).result()

        await asyncio.to_thread(Replay(script, warm=warm).play)
        if os.environ.get("ENGINE_HOLDS"):
            print(HOLDS, flush=True)
            await may_go_on.wait()
        if ignores != "always":
            loop.add_signal_handler(signal.SIGTERM, lambda: loop.create_task(self.drain()))
        self._be_ready()
        await self.listen()
        await for_ever.wait()

    async def listen(self) -> None:
        if self.server is None:
            self.server = await self.http.listen()

    async def drain(self) -> None:
        """End when the running requests have ended."""
        print("INFO Shutting down", flush=True)
        if self.server is not None:
            self.server.close()
        while self.http.running:  # noqa: ASYNC110 - the HTTP side tells nobody
            await asyncio.sleep(0.02)
        os._exit(0)

    def _be_ready(self) -> None:
        self.is_ready = True
        models = [
            {
                "id": name,
                "object": "model",
                "created": int(time.time()),
                "owned_by": self.flavor,
                "max_model_len": 16384,
            }
            for name in self.names
        ]
        health = '{"status":"ok"}' if self.flavor == "llamacpp" else ""
        self.http.answers |= {
            "/health": (200, health),
            "/v1/models": (200, json.dumps({"object": "list", "data": models})),
            "/version": (200, json.dumps({"version": VERSION})),
            "/server_info": (200, json.dumps({"version": VERSION})),
            "/props": (200, json.dumps({"build_info": VERSION, "total_slots": 2})),
        }

    def _plan(self, body: dict[str, Any]) -> EngineScript:
        if not self.is_ready:
            return EngineScript(
                deltas=[], status=503, error=LOADING, content_type="application/json"
            )
        if body.get("model") not in self.names and self.flavor != "llamacpp":
            error = {"message": f"The model `{body.get('model')}` does not exist.", "code": 404}
            return EngineScript(
                deltas=[], status=404, error={"error": error}, content_type="application/json"
            )
        if self.is_wedged:
            return EngineScript(deltas=[], first_delay=1e6)
        return answers.script(body, flavor=self.flavor, model=self.names[0])

    def _metrics(self) -> None:
        if self.flavor == "llamacpp" and not (
            self.flags.metrics or os.environ.get("LLAMA_ARG_ENDPOINT_METRICS")
        ):
            error = {"code": 501, "message": "This server does not support metrics endpoint."}
            self.http.answers["/metrics"] = (501, json.dumps({"error": error}))
            return
        if self.flavor == "sglang" and not self.flags.enable_metrics:
            return
        running, waiting = GAUGES[self.flavor]
        labels = "" if self.flavor == "llamacpp" else f'{{model_name="{self.names[0]}"}}'
        text = (
            f"# TYPE {running} gauge\n{running}{labels} {self.http.running}\n"
            f"# TYPE {waiting} gauge\n{waiting}{labels} 0\n"
            f"# TYPE {COUNTERS[self.flavor]} counter\n"
            f"{COUNTERS[self.flavor]}{labels} {self.http.sent}\n"
        )
        self.http.answers["/metrics"] = (200, text)

    def _slots(self) -> None:
        if self.flavor == "llamacpp":
            busy = [{"id": n, "is_processing": n < self.http.running} for n in range(2)]
            self.http.answers["/slots"] = (200, json.dumps(busy))

    def _wedge(self) -> None:
        self.is_wedged = True
        self.http.answers["/wedge"] = (200, "")

    def _stats(self) -> None:
        outcomes = list(self.http.outcomes.queue)
        seen = {
            "requests": len(self.http.requests),
            "running": self.http.running,
            "complete": outcomes.count("complete"),
            "cancelled": outcomes.count("cancelled"),
            "last": self.http.requests[-1] if self.http.requests else None,
        }
        self.http.answers["/stats"] = (200, json.dumps(seen))


def _untold_port(flavor: str) -> int:
    """ENGINE_PORT: of a release that has moved."""
    told = os.environ.get("LLAMA_ARG_PORT") or os.environ.get("ENGINE_PORT")
    return int(told or PORTS[flavor])


def read_flags(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--model", "--model-path", "-m", "-hf", "--hf-repo", dest="named_model")
    parser.add_argument("--served-model-name", "--alias", "-a", nargs="+")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.92)
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--enable-metrics", action="store_true")
    parser.add_argument("--enable-sleep-mode", action="store_true")
    flags, _unknown = parser.parse_known_args(words)
    flags.model = flags.named_model or flags.model
    return flags


def main(words: list[str]) -> None:
    for program, key in BENCHES.items():
        if tuple(words[: len(program)]) == program:
            bench.main(key, words[len(program) :])
            return
    if any(word.split("=")[0] in ("--help", "--version") for word in words):
        sys.exit("This is the tests' engine: it has no flags to list.")
    flavor = "vllm"
    for program, name in PROGRAMS.items():
        if tuple(words[: len(program)]) == program:
            flavor, words = name, words[len(program) :]
    flavor = os.environ.get("ENGINE_FLAVOR", flavor)
    script = os.environ.get("ENGINE_SCRIPT", flavor)
    ignores = os.environ.get("ENGINE_IGNORES_SIGTERM", "")
    if script == "stubborn":
        script, ignores = flavor, "always"
    flags = read_flags(words)
    if flags.gpu_memory_utilization > float(os.environ.get("ENGINE_FITS", "1")):
        script = "crash"
    if ignores:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(f"engine pid {os.getpid()}: {script}, {' '.join(words)}", flush=True)
    asyncio.run(TestEngine(flavor, flags).run(script, ignores))


if __name__ == "__main__":
    main(sys.argv[1:])

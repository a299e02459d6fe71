"""The gateway beside LiteLLM's proxy, before the same engine, taking turns.

LiteLLM gets an environment of its own, made at the first bench and kept: the project needs it for
nothing else.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import yaml

from tests.bench import streams
from tests.bench.gateway import KEY, asked_by_key
from tests.bench.result import BenchResult, progress
from tests.bench.streams import BenchWay
from tests.chat_stack import chat_stack
from tests.docker_engine import FOLDER
from tests.ports import free_port

NAME = "gateway beside LiteLLM"
STREAMS = (1, 16, 64)
PLACE = FOLDER / "litellm"
MASTER_KEY = "sk-bench"
# It loads for long: it imports what it has for every provider.
STARTS_WITHIN = 180.0


def bench() -> Iterator[BenchResult]:
    program = _installed()
    with (
        streams.engine() as port,
        chat_stack(port) as stack,
        _litellm(program, port) as address,
    ):
        theirs = BenchWay(
            url=f"{address}/v1/chat/completions",
            headers={"Authorization": f"Bearer {MASTER_KEY}"},
            body=lambda messages: {"model": "tiny-qwen", "messages": messages, "stream": True},
        )
        ours = asked_by_key(stack, stack.shell(KEY).strip())
        yield from asyncio.run(_measure(theirs, ours))


async def _measure(theirs: BenchWay, ours: BenchWay) -> list[BenchResult]:
    async with streams.client() as client:
        times = await streams.first_tokens(client, (theirs, ours))
        found = [
            BenchResult(
                name=f"{NAME}: first token through us over through it, p50",
                value=streams.ratio(*times),
                unit="ratio",
                limit=1.0,
            )
        ]
        for count in STREAMS:
            firsts, rates = await streams.at_once(client, (theirs, ours), count)
            found += [
                BenchResult(
                    name=f"{NAME}, {count} at once: first token through us over through it, p50",
                    value=streams.ratio(*firsts),
                    unit="ratio",
                    limit=1.0,
                ),
                BenchResult(
                    name=f"{NAME}, {count} at once: throughput through us over through it",
                    value=streams.ratio(*rates),
                    unit="ratio",
                    limit=1.0,
                    is_floor=True,
                ),
            ]
    return found


def _installed() -> Path:
    program = PLACE / "bin" / "litellm"
    if not program.exists():
        progress("installing LiteLLM, once")
        subprocess.run([sys.executable, "-m", "venv", PLACE], check=True)
        pip = [str(PLACE / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "litellm[proxy]"], check=True)
    return program


@contextmanager
def _litellm(program: Path, engine: int) -> Iterator[str]:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    model = {
        "model": "openai/tiny-qwen",
        "api_base": f"http://127.0.0.1:{engine}/v1",
        "api_key": "none",
    }
    config = {
        "model_list": [{"model_name": "tiny-qwen", "litellm_params": model}],
        "general_settings": {"master_key": MASTER_KEY},
        "litellm_settings": {"telemetry": False},
    }
    # It looks up prices of models on the internet unless it is told not to.
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
    # It takes one word over and over for an engine that has gone mad, and hangs up.
    env["REPEATED_STREAMING_CHUNK_LIMIT"] = "1000000"
    env.pop("DATABASE_URL", None)
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "config.yaml").write_text(yaml.safe_dump(config))
        words = [str(program), "--config", str(path), "--host", "127.0.0.1", "--port", str(port)]
        running = subprocess.Popen(
            [*words, "--num_workers", "1"],
            env=env,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(address, running)
            yield address
        finally:
            running.terminate()
            running.wait()


def _wait(address: str, running: "subprocess.Popen[bytes]") -> None:
    progress("starting LiteLLM")
    deadline = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            httpx.get(f"{address}/health/liveliness").raise_for_status()
        except httpx.HTTPError as error:
            if running.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"LiteLLM does not answer: {error}") from error
            time.sleep(0.5)
        else:
            return

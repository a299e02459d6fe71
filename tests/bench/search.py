"""How soon a search of a long log answers: from the wish on the socket to the first hits, and to the last."""

import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from tests.bench.result import BenchResult, progress
from tests.chat_stack import Stack, chat_stack

LINES = 1_000_000
FIRST_LIMIT, ALL_LIMIT = 1.0, 10.0  # seconds
TURNS = 5

FILL = """
texts = (
    "INFO 11-21 08:00:00 [loggers.py:123] Engine 000: Avg prompt throughput: {}.5 tokens/s",
    "(Worker_TP1 pid=77) INFO 11-21 08:00:00 [gpu_model_runner.py:2021] step {} of the loop",
    "INFO:     127.0.0.1:4{} - 'POST /v1/chat/completions HTTP/1.1' 200 OK",
    "WARNING 11-21 08:00:00 [sched.py:9] request {} waits for a block of the cache",
)
for start in range(0, LINES, 50_000):
    records = [
        f"2026-11-21T08:00:00.{n:09d}Z o {texts[n % 4].format(n)}".encode()
        for n in range(start + 1, start + 50_001)
    ]
    LogChunk.objects.append(RUN, start, records)
"""
SEARCHES: dict[str, dict[str, Any]] = {
    "text": {"text": "request 77"},
    "text that stands only in the last line": {"text": f"step {LINES - 3} of"},
    "regular expression": {"text": r"throughput: \d+76\.5", "regex": True},
    "errors and warnings": {"level": "warning"},
}


def bench() -> Iterator[BenchResult]:
    with chat_stack(9) as stack:
        progress(f"storing {LINES:,} lines")
        stack.shell(f"RUN, LINES = {stack.run}, {LINES}\n{FILL}")
        for name, query in SEARCHES.items():
            times = [asyncio.run(timed(stack, query)) for _turn in range(TURNS)]
            firsts, alls = zip(*times, strict=True)
            yield _result(f"{name}, first hits", statistics.median(firsts), FIRST_LIMIT)
            yield _result(f"{name}, all hits", statistics.median(alls), ALL_LIMIT)


async def timed(stack: Stack, query: dict[str, Any]) -> tuple[float, float]:
    async with connect(
        f"{stack.url.replace('http', 'ws')}/ws/runs/{stack.run}/log/",
        origin=Origin(stack.url),
        additional_headers={"Cookie": f"{stack.cookie}={stack.session}"},
        max_size=None,
    ) as socket:
        await socket.recv()
        return await _search(socket, query)


async def _search(socket: ClientConnection, query: dict[str, Any]) -> tuple[float, float]:
    started = time.monotonic()
    await socket.send(json.dumps({"find": query, "id": 1}))
    first = 0.0
    while True:
        found = json.loads(await asyncio.wait_for(socket.recv(), 120))["found"]
        if found["total"] and not first:
            first = time.monotonic() - started
        if found.get("done"):
            assert found["total"], found
            assert "error" not in found, found
            return first, time.monotonic() - started


def _result(what: str, value: float, limit: float) -> BenchResult:
    return BenchResult(
        name=f"log: search of {LINES:,} lines, {what}", value=value, unit="s", limit=limit
    )

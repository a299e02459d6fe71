"""How much the playground's proxy costs.

Both ways are measured in one run against the same paced engine, taking turns: what the
machine does besides hits both.
"""

import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from tests.bench.result import Result
from tests.chat_stack import Stack, chat_stack

FIRST_TOKEN_LIMIT = 15.0  # ms, median through us minus median direct
THROUGHPUT_LIMIT = 0.9  # through us over direct
ROUNDS = 60
STREAMS = 16
TOKENS = 400
PACE = 0.02  # seconds between two tokens: 50 tokens a second and stream


@dataclass(frozen=True, kw_only=True)
class Way:
    """One of the two ways to the engine."""

    url: str
    headers: dict[str, str]
    run: int | None  # None: straight to the engine

    def body(self, **script: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": json.dumps(script)}]
        if self.run is None:
            return {"messages": messages, "stream": True}
        return {"run": self.run, "messages": messages, "params": {}}


def bench() -> Iterator[Result]:
    engine = subprocess.Popen(
        [sys.executable, "-m", "tests.scripted_engine"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert engine.stdout is not None
        port = int(engine.stdout.readline())
        with chat_stack(port) as stack:
            yield from asyncio.run(measure(port, stack))
    finally:
        engine.terminate()
        engine.wait()


async def measure(port: int, stack: Stack) -> list[Result]:
    async with httpx.AsyncClient(timeout=120, limits=httpx.Limits()) as client:
        direct = Way(url=f"http://127.0.0.1:{port}/v1/chat/completions", headers={}, run=None)
        ours = await _through_us(client, stack)
        return [
            await _first_token(client, direct, ours),
            await _throughput(client, direct, ours),
        ]


async def _through_us(client: httpx.AsyncClient, stack: Stack) -> Way:
    cookies = f"{stack.cookie}={stack.session}"
    page = await client.get(f"{stack.url}/chat/", headers={"Cookie": cookies})
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    if token is None:
        raise RuntimeError(f"/chat/ answered {page.status_code} without a form.")
    cookies += f"; {stack.csrf_cookie}={page.cookies[stack.csrf_cookie]}"
    client.cookies.clear()
    headers = {"Cookie": cookies, "X-CSRFToken": token[1], "Referer": f"{stack.url}/chat/"}
    return Way(url=f"{stack.url}/chat/completions/", headers=headers, run=stack.run)


async def _first_token(client: httpx.AsyncClient, direct: Way, ours: Way) -> Result:
    """The engine answers at once: what is left is the way."""
    times: dict[str, list[float]] = {direct.url: [], ours.url: []}
    for _round in range(ROUNDS + 5):
        for way in (direct, ours):
            began = time.perf_counter()
            async with _post(client, way, deltas=[{"content": "x"}]) as response:
                async for line in response.aiter_lines():
                    if '"content": "x"' in line:
                        times[way.url].append(time.perf_counter() - began)
    medians = [statistics.median(found[5:]) * 1000 for found in times.values()]
    return Result(
        name="playground: first token through us minus direct, p50",
        value=medians[1] - medians[0],
        unit="ms",
        limit=FIRST_TOKEN_LIMIT,
    )


async def _throughput(client: httpx.AsyncClient, direct: Way, ours: Way) -> Result:
    rates: list[list[float]] = [[], []]
    for _round in range(3):
        for number, way in enumerate((direct, ours)):
            began = time.perf_counter()
            found = await asyncio.gather(*(_tokens(client, way) for _ in range(STREAMS)))
            rates[number].append(sum(found) / (time.perf_counter() - began))
            if min(found) != TOKENS:
                raise RuntimeError(f"A stream brought {min(found)} of {TOKENS} tokens.")
    ratio = statistics.median(rates[1]) / statistics.median(rates[0])
    return Result(
        name=f"playground: {STREAMS} concurrent streams, throughput through us over direct",
        value=ratio,
        unit="ratio",
        limit=THROUGHPUT_LIMIT,
        is_floor=True,
    )


async def _tokens(client: httpx.AsyncClient, way: Way) -> int:
    script = {"deltas": [{"content": "word "}] * TOKENS, "delay": PACE}
    text = b""
    async with _post(client, way, **script) as response:
        async for piece in response.aiter_raw():
            text += piece
    return text.count(b'"content": "word "')


def _post(client: httpx.AsyncClient, way: Way, **script: Any) -> Any:
    return client.stream("POST", way.url, json=way.body(**script), headers=way.headers)

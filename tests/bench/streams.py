"""Streams of a paced engine, straight and through us: both in one run, taking turns.

What the machine does besides hits both.
"""

import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.bench.result import BenchResult

FIRST_TOKEN_LIMIT = 15.0  # ms, median through us minus median direct
THROUGHPUT_LIMIT = 0.9  # through us over direct
TOKENS = 200
PACE = 0.02  # seconds between two tokens: 50 tokens a second and stream
APART = 0.05  # seconds between the beginnings of two streams
ROUNDS = 3
ALONE = 60  # rounds of one stream, for a first token

# Some write JSON anew.
WORD = re.compile(rb'"content": ?"word "')

type Messages = list[dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class BenchWay:
    """One of the two ways to the engine."""

    url: str
    headers: dict[str, str]
    body: Callable[[Messages], dict[str, Any]]


def client() -> httpx.AsyncClient:
    # uvicorn closes connections that were idle for 5 s: let go before it does.
    return httpx.AsyncClient(
        timeout=120, limits=httpx.Limits(max_connections=None, keepalive_expiry=2)
    )


@contextmanager
def engine() -> Iterator[int]:
    """The port of an engine in a process of its own."""
    program = [sys.executable, "-m", "tests.scripted_engine"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield int(running.stdout.readline())
        finally:
            running.terminate()


def direct(port: int) -> BenchWay:
    return BenchWay(
        url=f"http://127.0.0.1:{port}/v1/chat/completions",
        headers={},
        body=lambda messages: {"messages": messages, "stream": True},
    )


async def first_token(
    client: httpx.AsyncClient, name: str, straight: BenchWay, ours: BenchWay
) -> BenchResult:
    return _difference(name, *await first_tokens(client, (straight, ours)))


async def first_tokens(
    client: httpx.AsyncClient, ways: tuple[BenchWay, BenchWay]
) -> list[list[float]]:
    """Seconds by each of the ways, of an engine that answers at once: what is left is the way."""
    times: list[list[float]] = [[], []]
    for _round in range(ALONE + 5):
        for number, way in enumerate(ways):
            times[number].append((await _stream(client, way, tokens=1, pace=0.0))[0])
    return [each[5:] for each in times]


async def at_once(
    client: httpx.AsyncClient, ways: tuple[BenchWay, BenchWay], count: int
) -> tuple[list[list[float]], list[list[float]]]:
    """So many streams: seconds until each one's first token, and tokens a second in all."""
    firsts: list[list[float]] = [[], []]
    rates: list[list[float]] = [[], []]
    for _round in range(ROUNDS):
        for number, way in enumerate(ways):
            began = time.perf_counter()
            found = await asyncio.gather(*(_later_stream(client, way, n) for n in range(count)))
            rates[number].append(count * TOKENS / (time.perf_counter() - began))
            firsts[number] += [first for first, _tokens in found]
            if (least := min(tokens for _first, tokens in found)) != TOKENS:
                raise RuntimeError(f"A stream brought {least} of {TOKENS} tokens.")
    return firsts, rates


async def together(
    client: httpx.AsyncClient, name: str, straight: BenchWay, ours: BenchWay, count: int
) -> list[BenchResult]:
    """What so many streams through us take, beside the same straight."""
    firsts, rates = await at_once(client, (straight, ours), count)
    return [
        _difference(f"{name}, {count} at once", *firsts),
        BenchResult(
            name=f"{name}, {count} at once: throughput through us over direct",
            value=ratio(*rates),
            unit="ratio",
            limit=THROUGHPUT_LIMIT,
            is_floor=True,
        ),
    ]


def ratio(others: list[float], ours: list[float]) -> float:
    return statistics.median(ours) / statistics.median(others)


def _difference(name: str, straight: list[float], ours: list[float]) -> BenchResult:
    return BenchResult(
        name=f"{name}: first token through us minus direct, p50",
        value=(statistics.median(ours) - statistics.median(straight)) * 1000,
        unit="ms",
        limit=FIRST_TOKEN_LIMIT,
    )


async def _later_stream(client: httpx.AsyncClient, way: BenchWay, number: int) -> tuple[float, int]:
    """People do not ask in the same millisecond."""
    await asyncio.sleep(number * APART)
    return await _stream(client, way, tokens=TOKENS, pace=PACE)


async def _stream(
    client: httpx.AsyncClient, way: BenchWay, *, tokens: int, pace: float
) -> tuple[float, int]:
    """Seconds until the first token, and how many came."""
    script = {"deltas": [{"content": "word "}] * tokens, "delay": pace}
    body = way.body([{"role": "user", "content": json.dumps(script)}])
    began, first, text = time.perf_counter(), 0.0, b""
    async with client.stream("POST", way.url, json=body, headers=way.headers) as response:
        async for piece in response.aiter_raw():
            text += piece
            if not first and WORD.search(text):
                first = time.perf_counter() - began
    return first, len(WORD.findall(text))

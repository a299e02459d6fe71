"""The gateway for half an hour: 32 streams at once, of which many are hung up on.

`make soak` (MINUTES=30). No request may be lost, no connection left behind, and memory must not grow.
It is no part of `make bench`, for it takes its time whatever the machine.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from dataclasses import dataclass, field

import httpx
import psutil

from tests.bench import streams
from tests.bench.gateway import KEY, asked_by_key
from tests.bench.result import BenchResult, progress
from tests.bench.streams import WORD, BenchWay
from tests.chat_stack import Stack, chat_stack

STREAMS = 32
HUNG_UP = 0.3  # of all streams
LENGTHS = (1, 400)  # tokens
SAMPLED_EVERY = 10.0
WARM = 0.2  # of the time: until then memory may grow
GROWTH_LIMIT = 10.0  # MB between the first and the last third of what follows
SETTLES_WITHIN = 30.0


@dataclass
class SoakReport:
    begun: int = 0
    hung_up: int = 0
    broken: list[str] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    results = run(parser.parse_args().minutes)
    for result in results:
        print(result.line())
    return 0 if all(each.ok for each in results) else 1


def run(minutes: float) -> list[BenchResult]:
    with streams.engine() as port, chat_stack(port) as stack:
        web = psutil.Process(stack.web.processes["web"].pid)
        ours = asked_by_key(stack, stack.shell(KEY).strip())
        told, memory = asyncio.run(_soak(web, ours, minutes * 60))
        results = [
            BenchResult(name="requests that broke", value=len(told.broken), unit="", limit=0),
            BenchResult(name="requests that were lost", value=_lost(stack, told), unit="", limit=0),
            BenchResult(name="connections left", value=_left(web, port, ours), unit="", limit=0),
            BenchResult(
                name=f"memory after {minutes:g} min", value=_growth(memory), unit="MB",
                limit=GROWTH_LIMIT,
            ),
        ]  # fmt: skip
    for each in told.broken[:10]:
        progress(each)
    progress(f"{told.begun} requests, {told.hung_up} of them hung up on")
    return results


async def _soak(
    web: psutil.Process, ours: BenchWay, seconds: float
) -> tuple[SoakReport, list[float]]:
    told, memory = SoakReport(), list[float]()
    until = time.monotonic() + seconds
    async with streams.client() as client:
        asking = [asyncio.create_task(_ask(client, ours, told, until)) for _ in range(STREAMS)]
        while time.monotonic() < until:
            memory.append(web.memory_info().rss / 1e6)
            progress(f"{told.begun} requests, {memory[-1]:.0f} MB")
            await asyncio.sleep(min(SAMPLED_EVERY, max(0.0, until - time.monotonic())))
        await asyncio.gather(*asking)
    return told, memory


async def _ask(client: httpx.AsyncClient, ours: BenchWay, told: SoakReport, until: float) -> None:
    chance = random.Random(id(asyncio.current_task()))  # noqa: S311 - no secret
    while time.monotonic() < until:
        tokens = chance.randint(*LENGTHS)
        stops = chance.randint(0, tokens) if chance.random() < HUNG_UP else None
        script = {"deltas": [{"content": "word "}] * tokens, "delay": streams.PACE}
        body = ours.body([{"role": "user", "content": json.dumps(script)}])
        told.begun += 1
        try:
            text = await _read(client, ours, body, stops)
        except httpx.HTTPError as error:
            told.broken.append(f"{type(error).__name__}: {error}")
            continue
        if stops is not None:
            told.hung_up += 1
        elif (count := len(WORD.findall(text))) != tokens or b"[DONE]" not in text:
            told.broken.append(f"{count} of {tokens} tokens: …{text[-200:]!r}")


async def _read(
    client: httpx.AsyncClient, ours: BenchWay, body: dict[str, object], stops: int | None
) -> bytes:
    """What came; of a stream that is hung up on, after so many tokens, no matter what."""
    text = b""
    async with client.stream("POST", ours.url, json=body, headers=ours.headers) as response:
        response.raise_for_status()
        async for piece in response.aiter_raw():
            text += piece
            if stops is not None and len(WORD.findall(text)) >= stops:
                break
    return text


def _lost(stack: Stack, told: SoakReport) -> int:
    """Of those that were begun, how many nobody has written down."""
    deadline = time.monotonic() + SETTLES_WITHIN
    while True:
        written = int(stack.shell("print(Request.objects.count())"))
        if written == told.begun or time.monotonic() > deadline:
            return abs(told.begun - written)


def _left(web: psutil.Process, engine: int, ours: BenchWay) -> int:
    """Connections to the engine that are open beside that of the last request.

    Idle ones are kept for a while, and closed at a request after that.
    """
    hello = ours.body([{"role": "user", "content": "hello"}])
    deadline = time.monotonic() + SETTLES_WITHIN
    while True:
        httpx.post(ours.url, json=hello, headers=ours.headers).raise_for_status()
        found = [
            each
            for each in web.net_connections(kind="tcp")
            if each.status == psutil.CONN_ESTABLISHED and tuple(each.raddr)[1:] == (engine,)
        ]
        if len(found) <= 1 or time.monotonic() > deadline:
            return max(0, len(found) - 1)
        time.sleep(0.5)


def _growth(memory: list[float]) -> float:
    """MB more in the last third than in the first, once it was warm."""
    warm = memory[int(len(memory) * WARM) :]
    third = max(1, len(warm) // 3)
    return statistics.mean(warm[-third:]) - statistics.mean(warm[:third])


if __name__ == "__main__":
    sys.exit(main())

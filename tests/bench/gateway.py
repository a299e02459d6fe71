"""How much the gateway costs: one stream, some, many; and what streams that say nothing take."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import httpx
import psutil

from tests.bench import streams
from tests.bench.result import BenchResult
from tests.bench.streams import BenchWay
from tests.chat_stack import Stack, chat_stack

NAME = "gateway"
STREAMS = (1, 16, 64)
IDLE = 200
MEMORY_LIMIT = 100.0  # MB more for all of them
KEY = """
person = User.objects.get(username="ada")
print(Key.make(person, "bench", Role.OPERATOR, expires_at=None)[1])
"""


def bench() -> Iterator[BenchResult]:
    with streams.engine() as port, chat_stack(port) as stack:
        token = stack.shell(KEY).strip()
        yield from asyncio.run(_measure(port, stack, token))


def asked_by_key(stack: Stack, token: str) -> BenchWay:
    return BenchWay(
        url=f"{stack.url}/v1/chat/completions",
        headers={"Authorization": f"Bearer {token}"},
        body=lambda messages: {"model": "tiny-qwen", "messages": messages, "stream": True},
    )


async def _measure(port: int, stack: Stack, token: str) -> list[BenchResult]:
    async with streams.client() as client:
        straight = streams.direct(port)
        ours = asked_by_key(stack, token)
        found = [await streams.first_token(client, NAME, straight, ours)]
        for count in STREAMS:
            found += await streams.together(client, NAME, straight, ours, count)
        found.append(await _idle(client, stack, ours))
    return found


async def _idle(client: httpx.AsyncClient, stack: Stack, ours: BenchWay) -> BenchResult:
    """Streams that have begun and say nothing more."""
    web = psutil.Process(stack.web.processes["web"].pid)
    before = web.memory_info().rss
    says = '{"deltas": [{"content": "word "}], "then": "hang"}'
    body = ours.body([{"role": "user", "content": says}])
    async with AsyncExitStack() as open_streams:
        for _ in range(IDLE):
            asked = client.stream("POST", ours.url, json=body, headers=ours.headers)
            response = await open_streams.enter_async_context(asked)
            pieces = response.aiter_raw()
            while b"word" not in await anext(pieces):
                pass
            open_streams.push_async_callback(pieces.aclose)  # type: ignore[attr-defined]
        more = web.memory_info().rss - before
    return BenchResult(
        name=f"{NAME}: memory for {IDLE} streams held open",
        value=more / 1e6,
        unit="MB",
        limit=MEMORY_LIMIT,
    )

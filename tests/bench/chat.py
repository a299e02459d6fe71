"""How much the playground's proxy costs."""

import asyncio
import re
from collections.abc import Iterator

import httpx

from tests.bench import streams
from tests.bench.result import BenchResult
from tests.bench.streams import BenchWay
from tests.chat_stack import Stack, chat_stack

NAME = "playground"
STREAMS = 16


def bench() -> Iterator[BenchResult]:
    with streams.engine() as port, chat_stack(port) as stack:
        yield from asyncio.run(_measure(port, stack))


async def _measure(port: int, stack: Stack) -> list[BenchResult]:
    async with streams.client() as client:
        straight, ours = streams.direct(port), await _through_us(client, stack)
        return [
            await streams.first_token(client, NAME, straight, ours),
            *await streams.together(client, NAME, straight, ours, STREAMS),
        ]


async def _through_us(client: httpx.AsyncClient, stack: Stack) -> BenchWay:
    cookies = f"{stack.cookie}={stack.session}"
    page = await client.get(f"{stack.url}/chat/", headers={"Cookie": cookies})
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    if token is None:
        raise RuntimeError(f"/chat/ answered {page.status_code} without a form.")
    cookies += f"; {stack.csrf_cookie}={page.cookies[stack.csrf_cookie]}"
    client.cookies.clear()
    headers = {"Cookie": cookies, "X-CSRFToken": token[1], "Referer": f"{stack.url}/chat/"}
    return BenchWay(
        url=f"{stack.url}/chat/completions/",
        headers=headers,
        body=lambda messages: {"run": stack.run, "messages": messages, "params": {}},
    )

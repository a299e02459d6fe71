"""What is left of a request to an engine when whoever asked it is gone, at whatever moment."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from servers.host.gateway import relay
from servers.host.http import connections
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint
from tests.scripted_engine import MODEL, ScriptedEngine
from tests.waiting import wait_until_async

type Ask = Callable[[Endpoint, bytes], Coroutine[Any, Any, None]]

TRIES, MOST = 400, 1_000_000
ENOUGH = 20  # that came to their end, so that all their steps were among those tried


@pytest.fixture(scope="module")
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine() as engine:
        yield engine


async def settles(what: str) -> None:
    """Until no connection is left that nobody uses any more and that is not idle either."""
    pool = connections.client()._transport._pool  # type: ignore[attr-defined]
    await wait_until_async(
        lambda: all(each.is_idle() or each.is_closed() for each in pool.connections),
        f"no connection is left of {what}",
        every=0.01,
    )


async def relayed(endpoint: Endpoint, body: bytes) -> None:
    headers = [(b"content-type", b"application/json")]
    async with relay(endpoint, "POST", "/v1/chat/completions", headers, body) as answer:
        async for _piece in answer.pieces:
            pass


async def chatted(endpoint: Endpoint, body: bytes) -> None:
    async with aclosing(probes.chat(endpoint, json.loads(body))) as pieces:
        async for _piece in pieces:
            pass


@pytest.mark.asyncio
@pytest.mark.parametrize("ask", [relayed, chatted])
async def test_a_request_that_is_cancelled_at_any_step_leaves_no_connection(
    engine: ScriptedEngine, ask: Ask
) -> None:
    endpoint = Endpoint(address="127.0.0.1", port=engine.port, key="")
    script = json.dumps({"deltas": [{"content": "word "}] * 3})
    said = {"model": MODEL, "messages": [{"role": "user", "content": script}], "stream": True}
    body = json.dumps(said).encode()
    ends = steps = 0
    while ends < ENOUGH:
        asking = asyncio.create_task(ask(endpoint, body))
        for _ in range(steps):
            await asyncio.sleep(0)
        ends += asking.done()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await settles(f"the request that was cancelled at step {steps}")
        # A machine that is busy with something else needs more of them to the end.
        steps += 1 if steps < TRIES else steps
        assert steps < MOST, "it did not come to its end"


@pytest.mark.asyncio
async def test_a_connection_on_which_an_engine_has_failed_is_not_used_again() -> None:
    """vLLM's server closes it right after such an answer, which does not say so."""
    statuses = iter((b"500 Internal Server Error", b"200 OK"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
        writer.write(b"HTTP/1.1 " + next(statuses) + b"\r\ncontent-length: 2\r\n\r\n{}")
        await reader.read(1)  # another request, or its end
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    endpoint = Endpoint(address="127.0.0.1", port=server.sockets[0].getsockname()[1], key="")
    async with server:
        seen = []
        for _ in range(2):
            async with relay(endpoint, "POST", "/v1/chat/completions", [], b"{}") as answer:
                seen.append((answer.status, b"".join([piece async for piece in answer.pieces])))
        await settles("the two requests")
        await connections.forget(asyncio.get_running_loop())  # else the server waits for its end

    assert seen == [(500, b"{}"), (200, b"{}")]

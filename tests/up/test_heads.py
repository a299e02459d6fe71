"""Who says nothing, or half of something, does not keep a connection."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import uvicorn
from websockets.asyncio.client import connect

from inferdash.up import heads
from servers.gateway.asgi import Message, Receive, Scope, Send

SOON = 0.3  # seconds
LATER = 3.0
HEAD = b"POST /x HTTP/1.1\r\nHost: box\r\nContent-Length: 4\r\n\r\n"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        await send({"type": "websocket.send", "text": "yes"})
        return
    said = b""
    while (message := await receive()).get("more_body"):
        said += message["body"]
    said += message.get("body", b"")
    await asyncio.sleep(2 * SOON)  # it thinks
    headers = [(b"x-heard", said)]
    start: Message = {"type": "http.response.start", "status": 204, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": b""})


@pytest_asyncio.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(heads, "WITHIN", SOON)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            application, http=heads.BoundedHeads, lifespan="off", log_level="error",
            timeout_keep_alive=60, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listening]))
        yield listening.getsockname()[1]
        server.should_exit = True
        await serving


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "said",
    [b"", b"GET / HTTP/1.1\r\nHost: b", HEAD, HEAD + b"ab", b"\r\n"],
    ids=["nothing", "half a head", "no body", "half a body", "an empty line"],
)
async def test_who_stops_in_the_middle_is_hung_up_on(port: int, said: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)

    assert await asyncio.wait_for(reader.read(), LATER) == b""
    writer.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("said", [HEAD[:20], b"\r\n"], ids=["half a head", "an empty line"])
async def test_half_a_second_request_does_not_stay_either(port: int, said: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD + b"abcd")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
    writer.write(said)

    assert await asyncio.wait_for(reader.read(), LATER) == b""
    writer.close()


@pytest.mark.asyncio
async def test_a_socket_may_be_silent(port: int) -> None:
    async with connect(f"ws://127.0.0.1:{port}/") as socket:
        await asyncio.sleep(3 * SOON)
        await socket.send("still there?")

        assert await asyncio.wait_for(socket.recv(), LATER) == "yes"


@pytest.mark.asyncio
async def test_who_says_all_of_it_in_pieces_is_answered_however_long_that_takes(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD)
    for _ in range(4):
        await asyncio.sleep(SOON / 2)
        writer.write(b"a")

    assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LATER)).startswith(
        b"HTTP/1.1 204"
    )
    writer.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("offer", ["h2c", "TLS/1.2"])
async def test_what_is_said_with_an_offer_of_another_protocol_is_heard(
    port: int, offer: str
) -> None:
    asked = HEAD.replace(
        b"Host",
        b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n"
        b"Upgrade: " + offer.encode() + b"\r\nHost",
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for body in (b"abcd", b"efgh"):  # the second one by the same connection
        writer.write(asked + body)

        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LATER)

        assert head.startswith(b"HTTP/1.1 204")
        assert b"x-heard: " + body in head
    writer.close()

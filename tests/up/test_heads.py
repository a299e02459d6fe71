"""Who says nothing, or half of something, does not keep a connection."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
import uvicorn
from websockets.asyncio.client import connect

from inferdash.up import connections
from servers.gateway.callers import Message, Receive, Scope, Send
from tests.waiting import PATIENCE, wait_until_async

HEAD = b"POST /x HTTP/1.1\r\nHost: box\r\nContent-Length: 4\r\n\r\n"


class ProtocolClock:
    """The time by which the protocol loses its patience: it passes when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, asyncio.TimerHandle]] = []
        loop = asyncio.get_running_loop()
        later = loop.call_later

        def call_later(delay: float, call: Callable[..., Any], *given: Any, **more: Any) -> Any:
            if delay != connections.SILENT_FOR:
                return later(delay, call, *given, **more)
            handle = asyncio.TimerHandle(self.now + delay, call, given, loop)
            self._timers.append((self.now + delay, handle))
            return handle

        monkeypatch.setattr(loop, "call_later", call_later)

    def passes(self, seconds: float) -> None:
        self.now += seconds
        over = [handle for due, handle in self._timers if due <= self.now]
        self._timers = [each for each in self._timers if each[0] > self.now]
        for handle in over:
            if not handle.cancelled():
                handle._run()


class HeadsServer:
    """A web process, what it has heard so far, and its clock."""

    def __init__(self, clock: ProtocolClock, port: int) -> None:
        self.clock = clock
        self.port = port
        self.connections = self.heard = 0

    async def hears(self, count: int) -> None:
        await wait_until_async(lambda: self.heard == count, lambda: f"{count}, not {self.heard}")

    def protocol(self) -> type[connections.BoundedHeads]:
        box = self

        class Counted(connections.BoundedHeads):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                box.connections += 1

            def data_received(self, data: bytes) -> None:
                super().data_received(data)
                box.heard += len(data)

        return Counted

    async def application(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        self.clock.passes(2 * connections.SILENT_FOR)  # it thinks
        headers = [(b"x-heard", said)]
        start: Message = {"type": "http.response.start", "status": 204, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": b""})


@pytest_asyncio.fixture
async def box(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HeadsServer]:
    clock = ProtocolClock(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        box = HeadsServer(clock, listening.getsockname()[1])
        config = uvicorn.Config(
            box.application, http=box.protocol(), interface="asgi3", lifespan="off", log_level="error",
            timeout_keep_alive=3600, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listening]))
        yield box
        server.should_exit = True
        await serving


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "said",
    [b"", b"GET / HTTP/1.1\r\nHost: b", HEAD, HEAD + b"ab", b"\r\n"],
    ids=["nothing", "half a head", "no body", "half a body", "an empty line"],
)
async def test_who_stops_in_the_middle_is_hung_up_on(box: HeadsServer, said: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", box.port)
    await wait_until_async(lambda: box.connections == 1, "it is connected")
    box.clock.passes(connections.SILENT_FOR - 1)
    writer.write(said)
    await box.hears(len(said))

    box.clock.passes(2 * connections.SILENT_FOR)

    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
    writer.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("said", [HEAD[:20], b"\r\n"], ids=["half a head", "an empty line"])
async def test_half_a_second_request_does_not_stay_either(box: HeadsServer, said: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", box.port)
    writer.write(HEAD + b"abcd")
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    assert answer.startswith(b"HTTP/1.1 204")
    writer.write(said)
    await box.hears(len(HEAD) + 4 + len(said))

    box.clock.passes(2 * connections.SILENT_FOR)

    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
    writer.close()


@pytest.mark.asyncio
async def test_a_socket_may_be_silent(box: HeadsServer) -> None:
    async with connect(f"ws://127.0.0.1:{box.port}/", open_timeout=PATIENCE) as socket:
        box.clock.passes(3 * connections.SILENT_FOR)
        await socket.send("still there?")

        assert await asyncio.wait_for(socket.recv(), PATIENCE) == "yes"


@pytest.mark.asyncio
async def test_who_says_all_of_it_in_pieces_is_answered_however_long_that_takes(
    box: HeadsServer,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", box.port)
    writer.write(HEAD)
    await box.hears(len(HEAD))
    for count in range(1, 5):
        box.clock.passes(connections.SILENT_FOR - 1)
        writer.write(b"a")
        await box.hears(len(HEAD) + count)

    assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)).startswith(
        b"HTTP/1.1 204"
    )
    writer.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("offer", ["h2c", "TLS/1.2"])
async def test_what_is_said_with_an_offer_of_another_protocol_is_heard(
    box: HeadsServer, offer: str
) -> None:
    asked = HEAD.replace(
        b"Host",
        b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n"
        b"Upgrade: " + offer.encode() + b"\r\nHost",
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", box.port)
    for body in (b"abcd", b"efgh"):  # the second one by the same connection
        writer.write(asked + body)

        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)

        assert head.startswith(b"HTTP/1.1 204")
        assert b"x-heard: " + body in head
    writer.close()

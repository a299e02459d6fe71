"""Requests to one engine and the bodies of its answers, with as little work for each piece as can be.

httpx takes several times as long for an event. That time is the engine's where both share the
cores, and makes a figure of the engine one of the client.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import httpcore
import httptools
import httpx

from servers.host.http import wire
from servers.host.http.connections import PROBE_TIMEOUT

# Seconds. uvicorn, in which vLLM and SGLang run, closes idle connections after 5 s.
_KEPT_FOR = 4.0
_SAID = 300  # bytes of the body of an error that are kept

# A piece of a body, and the moment of the monotonic clock at which it was there. Raises ValueError.
type Hear = Callable[[float, bytes], None]


class EngineConnection(asyncio.Protocol):
    """One answer at a time. httptools calls what begins with on_."""

    def __init__(self) -> None:
        self.is_open = False
        self.has_answered = False  # the last request, or begun to
        self.idle_since = 0.0
        self._answered: asyncio.Future[int] | None = None

    async def ask(self, request: bytes, hear: Hear) -> tuple[int, str]:
        """The status, and what the engine says where that is not 200. Raises httpx.TransportError,
        and the ValueError of `hear`. Cancelled, it hangs up."""
        self._hear, self._parser = hear, httptools.HttpResponseParser(self)
        self._said, self.reason = b"", ""
        self.has_answered = self._has_end = False  # `_has_end`: the head says where the body ends
        self._answered = asyncio.get_running_loop().create_future()
        try:
            if not self.is_open:
                raise httpx.WriteError("The engine has closed the connection.")
            self.transport.write(request)
            status = await self._answered
        except BaseException:
            self.hang_up()
            raise
        finally:
            self._answered = None
        self.idle_since = time.monotonic()
        return status, self._said[:_SAID].decode(errors="replace")

    def hang_up(self) -> None:
        self.is_open = False
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.is_open = transport, True

    def data_received(self, data: bytes) -> None:
        self._now = time.monotonic()
        if self._answered is None or self._answered.done():
            self.hang_up()  # it speaks without having been asked
            return
        self.has_answered = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(httpx.RemoteProtocolError(f"The answer is no HTTP: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._answered is None or self._answered.done():
            return
        if error is None and not self._has_end and self._parser.get_status_code():
            self._answered.set_result(self._parser.get_status_code())
        elif error is None:
            self._fail(httpx.RemoteProtocolError("The engine hung up before its answer was over."))
        else:
            self._fail(httpx.ReadError(str(error)))

    def on_status(self, reason: bytes) -> None:
        self.reason += reason.decode("latin-1")

    def on_header(self, name: bytes, _value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._has_end = True

    def on_body(self, piece: bytes) -> None:
        if self._parser.get_status_code() != httpx.codes.OK:
            if len(self._said) < _SAID:
                self._said += piece
            return
        try:
            self._hear(self._now, piece)
        except ValueError as error:
            self._fail(error)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        # uvicorn hangs up after an error, without saying so.
        if status != httpx.codes.OK or not self._parser.should_keep_alive():
            self.is_open = False
            self.transport.close()
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(status)

    def _fail(self, error: Exception) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)


class _LedConnection(EngineConnection):
    """To the relay of a far box, until that has led it on: the answer to CONNECT has no body."""

    is_led_on = False

    def on_headers_complete(self) -> None:
        if not self.is_led_on and self._answered is not None and not self._answered.done():
            self._answered.set_result(self._parser.get_status_code())


class EngineStreams:
    """Use as a context manager: connections are kept from one request to the next."""

    def __init__(self, url: str, headers: Mapping[str, str], via: wire.Way | None) -> None:
        self._via = via
        named = httpx.Request("POST", url, headers=dict(headers))
        self._host, self._port = named.url.host, named.url.port or 80
        headers = {**named.headers, "accept": "text/event-stream"}
        headers |= {"content-type": "application/json"}
        headers.pop("content-length", None)
        lines = [f"POST {named.url.raw_path.decode()} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if any("\n" in line or "\r" in line for line in lines):
            raise ValueError("A header has a line break in it.")
        self._head = "\r\n".join(lines).encode("latin-1")
        self._idle: list[EngineConnection] = []
        self._keeps = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for each in self._idle:
            each.hang_up()

    def write(self, body: Mapping[str, Any]) -> bytes:
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        return b"%b\r\ncontent-length: %d\r\n\r\n%b" % (self._head, len(content), content)

    async def ask(self, request: bytes, hear: Hear) -> tuple[int, str]:
        """As EngineConnection.ask does.

        llama.cpp announces that it keeps a connection, and closes it a moment after each stream
        (RFC 9112, 9.3.1: a request that met that may be sent again).
        """
        if (kept := self._take()) is not None:
            try:
                return await self._ask(kept, request, hear)
            except httpx.TransportError:
                if kept.has_answered:
                    raise
                self._keeps = False
        return await self._ask(await self._connect(), request, hear)

    async def _ask(
        self, connection: EngineConnection, request: bytes, hear: Hear
    ) -> tuple[int, str]:
        answer = await connection.ask(request, hear)
        if connection.is_open and not self._keeps:
            connection.hang_up()
        elif connection.is_open:
            self._idle.append(connection)
        return answer

    def _take(self) -> EngineConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.idle_since > time.monotonic() - _KEPT_FOR:
                return connection
            connection.hang_up()
        return None

    async def _connect(self) -> EngineConnection:
        via = self._via
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                return await (self._open() if via is None else self._open_by(via))
        except TimeoutError as error:
            raise httpx.ConnectTimeout("It took too long to connect.") from error

    async def _open(self) -> EngineConnection:
        loop = asyncio.get_running_loop()
        try:
            return (await loop.create_connection(EngineConnection, self._host, self._port))[1]
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error

    async def _open_by(self, way: wire.Way) -> EngineConnection:
        loop = asyncio.get_running_loop()
        try:
            _transport, led = await loop.create_connection(_LedConnection, "127.0.0.1", way.port)
        except OSError as error:
            raise wire.WireError("The connection to its box is cut.") from error
        try:
            status, _said = await led.ask(
                wire.write_connect(way, self._host, self._port), lambda _now, _piece: None
            )
        except httpx.TransportError as error:
            raise wire.WireError("The relay of its box does not answer.") from error
        try:
            wire.raise_for_answer(str(status), led.reason)
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            led.hang_up()
            raise httpx.ConnectError(str(error)) from error
        except wire.WireError:
            led.hang_up()
            raise
        led.is_led_on = True
        return led

"""Connections to the web process: bounded in what they say and in their silence, with TLS or an answer to whoever speaks without it."""

import asyncio
import contextlib
import json
import logging
import re
import socket
import ssl
from collections.abc import Callable
from types import FrameType

import uvicorn
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# More than browsers and proxies send; one read may hold the end of a body before a new head.
MOST_UNFINISHED = 512 * 1024
# Seconds for a whole head, and between two pieces of a body.
SILENT_FOR = 60.0
# Java's and Apache's clients offer HTTP/2 or TLS with what they ask, and go on in HTTP/1.1 where
# nobody takes it up. httptools takes the body that follows for the other protocol's, and drops it.
_OFFER = re.compile(rb"\r\nupgrade:(?![ \t]*websocket[ \t]*\r)[^\r\n]*(?=\r\n)", re.IGNORECASE)


class BoundedHeads(HttpToolsProtocol):
    unfinished = 0  # bytes since the last head or piece of a body was complete
    _silence: asyncio.TimerHandle | None = None
    _is_between = True  # two requests

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.unfinished += len(data)
        if self._is_between:
            data = _without_offer(data)
        super().data_received(data)
        if self.unfinished > MOST_UNFINISHED:
            self.transport.close()
        if self.transport.get_protocol() is not self:
            self._expect_nothing()  # it is a socket's from now on
        elif self._silence is None and self.cycle.response_complete:
            self._expect()  # what was said is no beginning yet, such as an empty line

    def on_message_begin(self) -> None:
        self._is_between = False
        self._expect()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.unfinished = 0
        self._expect()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.unfinished = 0
        self._expect()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.unfinished = 0
        self._is_between = True
        self._expect_nothing()
        super().on_message_complete()

    def _expect(self) -> None:
        """More of what has begun."""
        self._expect_nothing()
        self._silence = self.loop.call_later(SILENT_FOR, self.transport.close)

    def _expect_nothing(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None


def _without_offer(said: bytes) -> bytes:
    """The beginning of a request without the protocol that it would rather go on in."""
    head, gap, rest = said.partition(b"\r\n\r\n")
    return _OFFER.sub(b"", head + gap) + rest


WAKES_EVERY = 1.0  # seconds; uvicorn itself wakes ten times as often to see whether it is to end
# on_tick() makes a new header at every tenth count that it is given.
_WITH_HEADER = 0


class RestingServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._is_to_end = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(_WITH_HEADER):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_to_end.wait(), WAKES_EVERY)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None:
            # In the middle of whatever runs: its selector has to be woken as from another thread.
            self._loop.call_soon_threadsafe(self._is_to_end.set)


log = logging.getLogger(__name__)

HANDSHAKE = b"\x16"  # what every connection with TLS begins with
HANDSHAKE_WITHIN = (
    20.0  # seconds for its first byte, for the handshake, and for a head in the clear
)
LONGEST_HEAD = 16 * 1024
MOST_DROPPED = 1024 * 1024  # bytes of a body that is not wanted
_PAUSE = 1.0  # seconds, where the process has no descriptor left

type MakeProtocol = Callable[[], asyncio.Protocol]


class EncryptedServer(RestingServer):
    """Each connection takes the certificate as it is then, so that a renewed one needs no restart."""

    def __init__(
        self,
        config: uvicorn.Config,
        context: Callable[[], ssl.SSLContext],
        *,
        takes_plain: bool = False,
    ) -> None:
        super().__init__(config)
        self._context = context
        self._takes_plain = takes_plain
        self._doors: list[asyncio.Task[None]] = []
        self._coming: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        for each in sockets or []:
            each.setblocking(False)
            self._doors.append(asyncio.create_task(self._open(each)))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in [*self._doors, *self._coming]:
            each.cancel()
        await asyncio.gather(*self._doors, *self._coming, return_exceptions=True)
        await super().shutdown(sockets)

    async def _open(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _address = await loop.sock_accept(listening)
            except OSError as error:
                log.error("A connection could not be taken: %s", error)
                await asyncio.sleep(_PAUSE)
                continue
            coming = asyncio.create_task(self._take(connection))
            self._coming.add(coming)
            coming.add_done_callback(self._coming.discard)

    async def _take(self, connection: socket.socket) -> None:
        try:
            connection.setblocking(False)
            async with asyncio.timeout(HANDSHAKE_WITHIN):
                first = await _first_byte(connection)
        except OSError:  # also TimeoutError
            first = b""
        except BaseException:
            connection.close()
            raise
        # Whoever it is handed to closes it.
        with contextlib.suppress(OSError):  # scanners, and browsers that do not trust us yet
            if first == HANDSHAKE:
                await self._hand_over(connection, self._context())
            elif first and self._takes_plain:
                await self._hand_over(connection, None)
            elif first:
                await _answer_plain(connection)
            else:
                connection.close()

    async def _hand_over(self, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(
            self._protocol,
            connection,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_WITHIN if context else None,
        )

    def _protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


async def _first_byte(connection: socket.socket) -> bytes:
    """It stays where it is, for whoever is to read it; empty where the other side has gone."""
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(BlockingIOError):
            return connection.recv(1, socket.MSG_PEEK)
        is_there = asyncio.Event()
        loop.add_reader(connection, is_there.set)
        try:
            await is_there.wait()
        finally:
            loop.remove_reader(connection)


async def _answer_plain(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection, limit=LONGEST_HEAD)
    try:
        with contextlib.suppress(
            OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError
        ):
            async with asyncio.timeout(HANDSHAKE_WITHIN):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(plain_answer(head.decode("latin1")))
                await writer.drain()
                writer.write_eof()
                dropped = 0
                # What is closed with something unread takes the answer away again.
                while dropped < MOST_DROPPED and (piece := await reader.read(65536)):
                    dropped += len(piece)
    finally:
        writer.close()


def plain_answer(head: str) -> bytes:
    """For who asked without TLS: a page is sent to where it is, a program is told.

    A program that was sent on would show its key to everybody on the way again with each question,
    and nobody would notice.
    """
    first, *lines = head.split("\r\n")
    method, _space, rest = first.partition(" ")
    path = rest.partition(" ")[0]
    headers = {
        name.strip().lower(): value.strip()
        for name, _c, value in (line.partition(":") for line in lines)
    }
    host = headers.get("host", "")
    is_ours = validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)
    has_key = "authorization" in headers or "x-api-key" in headers
    if method in ("GET", "HEAD") and is_ours and not has_key and path.startswith("/"):
        return _answer(
            "307 Temporary Redirect", {"Location": f"https://{host}{path}"}, "", "text/plain"
        )
    where = f"https://{host}" if is_ours else "https://"
    sentence = (
        f"This port speaks HTTPS only. Write {where} where the address now begins with http://."
    )
    if has_key:
        sentence += " The key came unencrypted: make another one if somebody may have listened."
    # The shape that programs look for an error in, also those that speak to engines.
    text = json.dumps({"error": {"message": sentence, "type": "invalid_request_error"}})
    return _answer("400 Bad Request", {}, text, "application/json")


def _answer(status: str, headers: dict[str, str], text: str, kind: str) -> bytes:
    body = text.encode()
    told = {
        **headers,
        "Content-Type": f"{kind}; charset=utf-8",
        "Content-Length": str(len(body)),
        # TLS may be switched off again.
        "Cache-Control": "no-store",
        "Connection": "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin1") + body

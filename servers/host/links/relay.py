"""The relay of a box: it lets the hub, and nobody else, through to the engines of this box.

The hub reaches its socket by a reverse forward, and each connection begins with a head

    CONNECT 172.18.0.2:8000 HTTP/1.1
    Inferdash-Relay: SECRET

that is answered 200; from then on bytes go both ways as they come. The forward's port on the hub is
open to every account there: hence the secret. What is refused is answered 400, 403, 404, 502 or
503 with a sentence and closed.
"""

import asyncio
import errno
import hmac
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

HEADER = "Inferdash-Relay"
# The word of a 502: nothing listens there, or no answer to the attempt.
REFUSED, UNREACHABLE, TIMED_OUT = "refused", "unreachable", "timed out"

LONGEST_HEAD = 4096  # bytes
HEAD_WITHIN = 5.0  # seconds
# Seconds; less than what the hub waits for the whole, so that it hears which of them it was.
CONNECT_WITHIN = 4.0
MOST_CONNECTIONS = 1000
_SPARE = 64  # of which each is told that there are too many
_WAITING = 256  # connections that the kernel holds until they are accepted
# Bytes that wait for whoever reads slowly, before the other side is read no further: more would
# only hide the back-pressure, less costs throughput.
_HIGH_WATER = 256 * 1024

# Whether the hub may reach this address and port of the box.
type IsAllowed = Callable[[str, int], Awaitable[bool]]


class Relay:
    """`read_secret` is asked for every connection; "" lets nobody in."""

    def __init__(
        self,
        *,
        read_secret: Callable[[], str],
        is_allowed: IsAllowed,
        most: int = MOST_CONNECTIONS,
        head_within: float = HEAD_WITHIN,
    ) -> None:
        self.read_secret, self.is_allowed = read_secret, is_allowed
        self.most, self.head_within = most, head_within
        self.open: set[_HubSide] = set()

    async def listen(self, path: Path) -> asyncio.Server:
        """On a Unix socket that only this account may open. Raises OSError."""
        loop = asyncio.get_running_loop()
        return await loop.create_unix_server(
            lambda: _HubSide(self), sock=_bind(path), backlog=_WAITING
        )

    def close(self) -> None:
        """Cut every connection."""
        for each in list(self.open):
            each.cut()


def _bind(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode of what bind() makes is the umask's, from its first moment on.
    usual = os.umask(0o177)
    try:
        listening.bind(str(path))
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(usual)
    return listening


class _Side(asyncio.Protocol):
    """One of the two ends of a passage. What it hears goes to the other one."""

    transport: asyncio.Transport
    other: "_Side | None" = None  # None: not yet, or no more
    has_ended = False  # it sends no more

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_HIGH_WATER)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        """True keeps the way back open, on which an answer may still come."""
        self.has_ended = True
        if self.other is None or self.other.has_ended:
            return False
        self.other.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def part(self) -> "_Side | None":
        """The other one, which is none any more."""
        other, self.other = self.other, None
        if other is not None:
            other.other = None
            other.transport.resume_reading()
        return other


class _EngineSide(_Side):
    def __init__(self, hub: "_HubSide") -> None:
        self._hub = hub

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._hub.begin_passage(self)

    def connection_lost(self, _error: Exception | None) -> None:
        if (hub := self.part()) is not None:
            hub.transport.close()  # behind what has come


class _HubSide(_Side):
    """A connection from the hub: its head first, and then the passage."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._head = bytearray()
        self._opening: asyncio.Task[None] | None = None
        self._late: asyncio.TimerHandle | None = None
        self._is_over = False  # it was refused, or is gone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._relay.open) >= self._relay.most + _SPARE:
            self.transport.abort()
            return
        self._relay.open.add(self)
        loop = asyncio.get_running_loop()
        late = "the head of the request did not come in time"
        self._late = loop.call_later(self._relay.head_within, self._refuse, 408, late)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)
            return
        if self._is_over:
            return
        self._head += data
        if self._opening is not None:
            # Nobody who speaks HTTP sends before the answer; what comes is held within bounds.
            if len(self._head) > _HIGH_WATER:
                self._refuse(400, "too much came before the answer")
            return
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > LONGEST_HEAD:
                self._refuse(400, "the head is too long")
            return
        head = bytes(self._head[:end])
        del self._head[: end + 4]
        self._stop_waiting()
        self._opening = asyncio.ensure_future(self._open(head))

    def eof_received(self) -> bool:
        if self.other is None:
            self.transport.close()
            return False
        return super().eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_over = True
        self._relay.open.discard(self)
        self._stop_waiting()
        if self._opening is not None:
            self._opening.cancel()
        if (engine := self.part()) is None:
            return
        if error is None:
            engine.transport.close()
        else:
            engine.transport.abort()  # nobody hears the answer: it need not be generated

    def begin_passage(self, engine: _EngineSide) -> None:
        if self._is_over:
            engine.transport.abort()
            return
        engine.other, self.other = self, engine
        self.transport.write(b"HTTP/1.1 200 OK\r\n\r\n")
        if self._head:
            engine.transport.write(bytes(self._head))
            self._head.clear()

    def cut(self) -> None:
        if self.other is not None:
            self.other.transport.abort()
        self.transport.abort()

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()

    def _refuse(self, status: int, says: str) -> None:
        self._is_over = True
        self._stop_waiting()
        self.transport.write(f"HTTP/1.1 {status} {says}\r\nContent-Length: 0\r\n\r\n".encode())
        self.transport.close()

    async def _open(self, head: bytes) -> None:
        try:
            address, port = self._read(head)
            if len(self._relay.open) > self._relay.most:
                raise _RefusalError(503, "too many connections are open")
            if not await self._relay.is_allowed(address, port):
                raise _RefusalError(404, "no engine of this box that the hub may reach")
            await self._connect(address, port)
        except _RefusalError as error:
            self._refuse(error.status, str(error))
        except Exception:
            self._refuse(500, "the relay failed")
            raise

    async def _connect(self, address: str, port: int) -> None:
        """Raises _RefusalError."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                await loop.create_connection(lambda: _EngineSide(self), address, port)
        except TimeoutError as error:
            raise _RefusalError(502, TIMED_OUT) from error
        except OSError as error:
            was_refused = error.errno == errno.ECONNREFUSED
            raise _RefusalError(502, REFUSED if was_refused else UNREACHABLE) from error

    def _read(self, head: bytes) -> tuple[str, int]:
        """Raises _RefusalError."""
        line, *headers = head.split(b"\r\n")
        wanted = HEADER.lower().encode()
        given = b""
        for each in headers:
            name, _colon, value = each.partition(b":")
            if name.strip().lower() == wanted:
                given = value.strip()
        secret = self._relay.read_secret().encode()
        if not secret or not hmac.compare_digest(given, secret):
            raise _RefusalError(403, "the secret is not this box's")
        method, _space, rest = line.partition(b" ")
        place, _space, version = rest.partition(b" ")
        if method != b"CONNECT" or not version.startswith(b"HTTP/1."):
            raise _RefusalError(400, "only CONNECT is understood")
        return _parse_place(place.decode("latin-1"))


class _RefusalError(Exception):
    def __init__(self, status: int, says: str) -> None:
        super().__init__(says)
        self.status = status


def _parse_place(place: str) -> tuple[str, int]:
    """Address and port; no names, which may mean another address a moment later.

    Raises _RefusalError.
    """
    address, _colon, port = place.rpartition(":")
    try:
        found = str(ipaddress.ip_address(address.removeprefix("[").removesuffix("]")))
    except ValueError as error:
        raise _RefusalError(400, "that is no address") from error
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise _RefusalError(400, "that is no port")
    return found, int(port)

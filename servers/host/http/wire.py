"""Ways to engines of a far box: connections through its relay, on the pools of near ones.

A connection by a way is one to the relay's port on this machine that has been led on to the engine
(servers.host.links.relay); then it is like any other.
"""

import asyncio
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpcore
import httpx

from servers.host.links.relay import HEADER, REFUSED, TIMED_OUT

WAY = "inferdash_way"  # the extension of a request that names it
_LONGEST_ANSWER = 4096  # bytes of the relay's answer


@dataclass(frozen=True)
class Way:
    """`port` on 127.0.0.1, where the relay of a far box comes out, and what it wants to hear."""

    port: int
    secret: str = field(repr=False)


class WireError(httpx.ConnectError):
    """The box, and not the engine, could not be reached; the text is a sentence for a person.

    The engine has seen nothing of the request.
    """


class EngineTransport(httpx.AsyncHTTPTransport):
    """Sends a request straight, or by the way that its extensions name.

    A pool a way: two boxes may each have an engine at the same address.
    """

    def __init__(self, limits: httpx.Limits, way: Way | None = None) -> None:
        # No engine speaks TLS, and to load the certificates for it takes long.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        super().__init__(verify=context, limits=limits, trust_env=False)
        self._limits, self._way = limits, way
        self._far: dict[Way, EngineTransport] = {}
        if way is not None:
            # httpx has no argument for the backend.
            self._pool = httpcore.AsyncConnectionPool(
                max_connections=limits.max_connections,
                max_keepalive_connections=limits.max_keepalive_connections,
                keepalive_expiry=limits.keepalive_expiry,
                network_backend=_WireBackend(way),
            )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        way: Way | None = request.extensions.get(WAY)
        if way is None or way == self._way:
            return await super().handle_async_request(request)
        if way not in self._far:
            self._far[way] = EngineTransport(self._limits, way)
        return await self._far[way].handle_async_request(request)

    async def aclose(self) -> None:
        for each in self._far.values():
            await each.aclose()
        await super().aclose()


class _WireBackend(httpcore.AsyncNetworkBackend):
    def __init__(self, way: Way) -> None:
        self._way = way
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Raises WireError, and what a near engine's connection raises."""
        try:
            async with asyncio.timeout(timeout):
                try:
                    stream = await self._inner.connect_tcp("127.0.0.1", self._way.port)
                except httpcore.ConnectError as error:
                    raise WireError("The connection to its box is cut.") from error
                try:
                    await self._lead_on(stream, host, port)
                except BaseException:
                    await stream.aclose()
                    raise
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("Its box did not answer in time.") from error
        return stream

    async def _lead_on(self, stream: httpcore.AsyncNetworkStream, host: str, port: int) -> None:
        try:
            await stream.write(write_connect(self._way, host, port))
            head, rest = await _read_head(stream)
        except (httpcore.ReadError, httpcore.WriteError) as error:
            # ssh accepts for the relay, and hangs up when that does not.
            raise WireError("The relay of its box does not answer.") from error
        status, _space, says = head.partition(b"\r\n")[0].decode("latin-1")[9:].partition(" ")
        raise_for_answer(status, says)
        if rest:
            raise httpcore.RemoteProtocolError("The engine speaks before it was asked.")


async def _read_head(stream: httpcore.AsyncNetworkStream) -> tuple[bytes, bytes]:
    """With what came behind it. Raises httpcore.ReadError, also where it never ends."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = await stream.read(_LONGEST_ANSWER)
        if not piece or len(answer) > _LONGEST_ANSWER:
            raise httpcore.ReadError("It ends before its head does.")
        answer += piece
    head, _end, rest = answer.partition(b"\r\n\r\n")
    return head, rest


def write_connect(way: Way, host: str, port: int) -> bytes:
    """What the relay wants to hear before it leads a connection on."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"CONNECT {place} HTTP/1.1\r\n{HEADER}: {way.secret}\r\n\r\n".encode()


def raise_for_answer(status: str, says: str) -> None:
    """Raises WireError, and httpcore's errors of connections; nothing where it has led on."""
    if status == "200":
        return
    if status == "502" and says == REFUSED:
        raise httpcore.ConnectError("Nothing listens on the engine's port.")
    if status == "502" and says == TIMED_OUT:
        raise httpcore.ConnectTimeout("The engine did not answer in time.")
    if status == "502":
        raise httpcore.ConnectError("The engine's address cannot be reached from its box.")
    if status == "404":
        # It has just ended, as far as its box knows.
        raise httpcore.ConnectError("Its box has no such engine any more.")
    if status == "403":
        raise WireError("Its box refuses this hub: the secret is not the one of its relay.")
    raise WireError(f"The relay of its box refuses the connection: {says}.")

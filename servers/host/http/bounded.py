"""A question over HTTP with an answer within bounds: bytes once it is unpacked, seconds in all.

httpx has neither: its timeouts begin anew with every byte, it unpacks a piece whole (a thousandfold
what came), and it reads what stands in a redirect before it follows it.
"""

import asyncio
import ipaddress
import socket
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.request import getproxies, proxy_bypass

import httpx

from servers.host.http import connections

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Amazon's metadata over IPv6, which is not link-local.
_METADATA = (ipaddress.ip_network("fd00:ec2::254/128"),)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class UnknownNameError(Exception):
    """Nobody knows the name."""


def goes_by_proxy(url: httpx.URL) -> bool:
    """Whether the environment names a proxy for it; that one then resolves the name."""
    proxies = getproxies()
    named = url.scheme in proxies or "all" in proxies
    return named and not proxy_bypass(url.host)


def resolve_address(host: str, port: int) -> list[Address]:
    """Every address of a name. Raises UnknownNameError."""
    try:
        told = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnknownNameError(host) from error
    found: list[Address] = []
    for each in told:
        address = ipaddress.ip_address(str(each[4][0]).partition("%")[0])
        if address not in found:
            found.append(address)
    return found


def port_of(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def is_of_the_link(address: Address) -> bool:
    """Whether it is the machine's own network link, where clouds keep credentials, or many at once."""
    plain = _plain(address)
    if plain.is_link_local or plain.is_multicast or plain.is_unspecified:
        return True
    return any(plain in each for each in _METADATA if each.version == plain.version)


def is_public(address: Address) -> bool:
    """Whether it is one of the internet's, and of no network of one's own."""
    return _plain(address).is_global and not is_of_the_link(address)


def _plain(address: Address) -> Address:
    """What an address within another one leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


CONNECTING = 5.0  # seconds to a connection, names and TLS among them
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


class BoundsError(Exception):
    """The answer is not one that is read; the text says why and follows the name of who answers:
    "answers with more than 64 KiB"."""


@dataclass(frozen=True, kw_only=True)
class BoundedResponse:
    status: int
    reason: str
    headers: httpx.Headers
    body: bytes  # unpacked
    leads_to: httpx.URL | None = None  # of a redirect that was not followed

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


async def fetch(
    request: httpx.Request,
    *,
    by: httpx.AsyncClient,
    most: int,
    within: float,
    hops: int = 0,
    is_cut: bool = False,
) -> BoundedResponse:
    """The answer, of at most `most` bytes, in at most `within` seconds with all that leads to it.

    `hops` redirects are followed. `is_cut`: of a longer or slower one the begin will do.
    Raises BoundsError, and httpx.TransportError and httpx.TooManyRedirects.
    """
    response: httpx.Response | None = None
    body = bytearray()
    try:
        async with asyncio.timeout(within):
            response = await _follow_redirects(request, by, hops)
            try:
                await _read(response, body, most)
            finally:
                await connections.let_go(response)
    except (TimeoutError, BoundsError) as error:
        if response is None or not is_cut:
            late = BoundsError(f"has not answered in full within {within:.0f} s")
            raise error if isinstance(error, BoundsError) else late from error
    following = response.next_request
    return BoundedResponse(
        status=response.status_code,
        reason=response.reason_phrase,
        headers=response.headers,
        body=bytes(memoryview(body)[:most]),
        leads_to=following.url if following is not None else None,
    )


async def begin(response: httpx.Response, most: int) -> bytes:
    """The first `most` bytes of an answer that was sent as it is. Raises httpx.TransportError."""
    body = bytearray()
    async with aclosing(connections.pieces(response)) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) >= most:
                break
    return bytes(body[:most])


async def _follow_redirects(
    request: httpx.Request, by: httpx.AsyncClient, hops: int
) -> httpx.Response:
    """The begin of the answer that the redirects end at, to be let go."""
    for hop in range(hops + 1):
        response = await connections.send(request, by)
        following = response.next_request
        if following is None or not hops:
            return response
        await connections.let_go(response)
        if hop < hops:
            request = _build_next_request(request, following)
    raise httpx.TooManyRedirects("it leads from one address to the next", request=request)


def _build_next_request(request: httpx.Request, following: httpx.Request) -> httpx.Request:
    if request.url.scheme == "https" != following.url.scheme:
        raise BoundsError("leads on to an address without encryption")
    return following


async def _read(response: httpx.Response, body: bytearray, most: int) -> None:
    unpacking = _find_decompressor(response.headers.get("content-encoding", ""))
    async with aclosing(connections.pieces(response)) as pieces:
        async for piece in pieces:
            # One byte more than there may be is how too much is told.
            room = most - len(body) + 1
            body += piece if unpacking is None else _decompress(unpacking, piece, room)
            if len(body) > most:
                raise BoundsError(f"answers with more than {_size(most)}")
    if unpacking is not None and body and not unpacking.eof:
        raise BoundsError("breaks off in the middle of its answer")


def _find_decompressor(encoding: str) -> "zlib._Decompress | None":
    """None where the answer is not packed."""
    match encoding.strip().casefold():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return zlib.decompressobj(_GZIP_OR_ZLIB)
    raise BoundsError(f"packs its answer in a way that it was not asked for ({encoding[:40]!r})")


def _decompress(unpacking: "zlib._Decompress", piece: bytes, room: int) -> bytes:
    try:
        return unpacking.decompress(piece, room)
    except zlib.error as error:
        raise BoundsError("answers with what cannot be unpacked") from error


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


type Place = tuple[httpx.URL, dict[str, str], dict[str, str]]


def _pin_address(url: httpx.URL, address: Address) -> Place:
    """Where to send a request for `url`, with what to say so that it is the name that is asked."""
    where = url.copy_with(host=str(address))
    return where, {"Host": url.netloc.decode()}, {"sni_hostname": url.raw_host.decode()}


class Outside:
    """Asks what is not ours, from threads: registries, the Hub, where alerts go."""

    def __init__(
        self,
        *,
        within: float,
        silence: float,
        headers: Mapping[str, str] | None = None,
        is_direct: bool = False,
    ) -> None:
        """`within`: seconds for a question with its answer, `silence`: for each byte of it.
        `is_direct`: by no proxy that the environment names."""
        self._within = within
        self._client = connections.without_cookies(
            httpx.AsyncClient(
                headers={"Accept-Encoding": "gzip", **(headers or {})},
                timeout=httpx.Timeout(silence, connect=CONNECTING),
                trust_env=not is_direct,
                follow_redirects=False,
            )
        )

    @property
    def headers(self) -> httpx.Headers:
        """What is sent with each question; the token goes to no other host."""
        return self._client.headers

    def ask(
        self,
        method: str,
        url: httpx.URL | str,
        *,
        most: int,
        hops: int = 0,
        is_cut: bool = False,
        at: Sequence[Address] | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> BoundedResponse:
        """`at`: the very addresses that were looked at, as a name may mean another one a moment
        later; None: whatever the name means. `options` are httpx's of a request.

        Raises as received() does, and httpx.InvalidURL.
        """
        until = time.monotonic() + self._within
        wanted = httpx.URL(url)
        *others, last = [_pin_address(wanted, each) for each in at] if at else [(wanted, {}, {})]
        for place in [*others, last]:
            where, host, extensions = place
            request = self._client.build_request(
                method, where, headers={**host, **(headers or {})}, extensions=extensions, **options
            )
            answer = fetch(
                request,
                by=self._client,
                most=most,
                within=max(0.0, until - time.monotonic()),
                hops=hops,
                is_cut=is_cut,
            )
            try:
                return connections.waited_for(answer)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if place is last:
                    raise
        raise AssertionError("the last one is answered, or raises")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        connections.waited_for(self._client.aclose())


@contextmanager
def stream(
    client: httpx.Client, url: str, headers: Mapping[str, str], *, hops: int
) -> Iterator[httpx.Response]:
    """The answer that the redirects end at, to be read while it comes: a file has no bound.

    Raises httpx.HTTPError.
    """
    request = client.build_request("GET", url, headers=headers)
    for _hop in range(hops + 1):
        with closing(client.send(request, stream=True, follow_redirects=False)) as answer:
            if answer.next_request is None:
                yield answer
                return
            request = answer.next_request
    raise httpx.TooManyRedirects("it leads from one address to the next", request=request)

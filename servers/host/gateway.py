"""The relay: a request passed on to an engine, its answer passed back piece by piece."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import httpx

from servers.host.http import connections
from servers.host.http.wire import WireError
from servers.host.runs.probes import Endpoint

type Headers = Iterable[tuple[bytes, bytes]]

# What an engine may know of who asks. Not its key, its cookies, or where it thinks that it is.
_TOLD = frozenset(
    (b"accept", b"content-type", b"user-agent", b"x-request-id", b"anthropic-version",
     b"anthropic-beta", b"openai-organization", b"openai-project", b"traceparent", b"tracestate")
)  # fmt: skip
# What a program may know of the engine's answer. Not its cookies: those are for the same host.
_ANSWERED = frozenset(
    (b"content-type", b"content-length", b"cache-control", b"retry-after", b"x-request-id",
     b"x-accel-buffering")
)  # fmt: skip


class AwayError(Exception):
    """The engine could not be reached, or hung up; the text is httpx's own."""

    def __init__(self, detail: str, *, was_refused: bool = False, is_cut: bool = False) -> None:
        super().__init__(detail)
        self.was_refused = was_refused  # nothing listens: it has not seen the request
        self.is_cut = is_cut  # its box cannot be reached, which the text says to a person


@dataclass(frozen=True, kw_only=True)
class UpstreamResponse:
    status: int
    headers: tuple[tuple[bytes, bytes], ...]  # names in lower case
    pieces: AsyncGenerator[bytes]  # raises AwayError when the engine hangs up before the end


@asynccontextmanager
async def relay(
    endpoint: Endpoint, method: str, path: str, headers: Headers, body: bytes
) -> AsyncIterator[UpstreamResponse]:
    """Ask the engine what a program asks; `path` with its query. Raises AwayError, ValueError.

    Leaving the context closes the connection, which every engine takes as "stop generating".
    """
    told = [(name, value) for name, value in headers if name.lower() in _TOLD]
    # Passed on as it is, so that its end can be read here, too.
    told.append((b"accept-encoding", b"identity"))
    request = endpoint.build_request(method, path, told, content=body)
    try:
        response = await connections.send(request)
    except WireError as error:
        raise AwayError(str(error), was_refused=True, is_cut=True) from error
    except httpx.ConnectError as error:
        raise AwayError(str(error), was_refused=True) from error
    except httpx.TransportError as error:
        raise AwayError(str(error) or type(error).__name__) from error
    try:
        async with aclosing(_pieces(response)) as pieces:
            yield UpstreamResponse(
                status=response.status_code,
                headers=tuple(
                    (name.lower(), value)
                    for name, value in response.headers.raw
                    if name.lower() in _ANSWERED
                ),
                pieces=pieces,
            )
    finally:
        await connections.let_go(response)


async def _pieces(response: httpx.Response) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(connections.pieces(response)) as pieces:
            async for piece in pieces:
                yield piece
    except httpx.TransportError as error:
        raise AwayError(str(error) or type(error).__name__) from error

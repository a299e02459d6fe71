"""Connections: kept a while for the next request, and none left behind by who hangs up."""

import asyncio
import atexit
import threading
from collections.abc import AsyncGenerator, Coroutine, Mapping
from functools import cache
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import httpx

from servers.host.http.wire import WAY, EngineTransport, Way

# Seconds. A healthy engine answers these in milliseconds, also under full load.
PROBE_TIMEOUT = 5.0
# What httpcore tells when a connection stands and is about to be used.
_SENDING = "http11.send_request_headers.started"

# A connection belongs to the event loop that opened it. The web process has one loop, and
# so have the probes.
_clients: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}
_leaving: set[asyncio.Task[None]] = set()  # so that none is forgotten before it is done


def client() -> httpx.AsyncClient:
    """The running event loop's."""
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        # uvicorn, in which vLLM and SGLang run, closes idle connections after 5 s:
        # let go before, or a request meets a connection that is being closed.
        _clients[loop] = make_client(
            httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=4)
        )
    return _clients[loop]


def make_client(limits: httpx.Limits) -> httpx.AsyncClient:
    """One that reaches engines, near ones and those behind a way."""
    client = httpx.AsyncClient(
        # A long prompt on a busy engine may take many minutes to its first token:
        # people press Stop, not a clock.
        timeout=httpx.Timeout(None, connect=PROBE_TIMEOUT),
        transport=EngineTransport(limits),
        **options(),
    )
    return without_cookies(client)


def lead(via: Way | None) -> Mapping[str, Any]:
    """The extensions of a request that goes by this way; None: straight."""
    return {} if via is None else {WAY: via}


async def forget(loop: asyncio.AbstractEventLoop) -> None:
    """Close what the loop, which is about to end, has open."""
    if client := _clients.pop(loop, None):
        await client.aclose()


def without_cookies(client: httpx.AsyncClient) -> httpx.AsyncClient:
    # Cookies ignore ports: one engine's would be sent to the next one on this host.
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


def options() -> dict[str, Any]:
    """No proxies, netrc or certificates from the environment, and no redirects: they would lead
    away from the endpoint."""
    return {"trust_env": False, "follow_redirects": False}


def waited_for[Found](work: Coroutine[Any, Any, Found]) -> Found:
    """What comes of `work` in the loop of all questions, for who has no loop. Raises what it raises."""
    return asyncio.run_coroutine_threadsafe(work, _get_event_loop()).result()


@cache
def _get_event_loop() -> asyncio.AbstractEventLoop:
    """The event loop of all questions, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="questions", daemon=True)
    thread.start()

    def end() -> None:
        ending = forget(loop)
        asyncio.run_coroutine_threadsafe(ending, loop).result(PROBE_TIMEOUT)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PROBE_TIMEOUT)
        loop.close()

    atexit.register(end)
    return loop


async def send(request: httpx.Request, by: httpx.AsyncClient | None = None) -> httpx.Response:
    """The beginning of the answer; `by` None is the loop's own client. Raises httpx.TransportError.

    httpcore loses a connection if whoever waits is cancelled while it is being made: it is neither
    used nor closed for ever. So that is awaited, at most PROBE_TIMEOUT, before the request ends.
    """
    is_sending = asyncio.Event()

    async def trace(event: str, _info: dict[str, Any]) -> None:
        if event == _SENDING:
            is_sending.set()

    request.extensions["trace"] = trace
    asking = asyncio.ensure_future((by or client()).send(request, stream=True))
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        leaving = asyncio.ensure_future(_leave(asking, is_sending))
        _leaving.add(leaving)
        leaving.add_done_callback(_leaving.discard)
        raise


async def _leave(asking: "asyncio.Task[httpx.Response]", is_sending: asyncio.Event) -> None:
    sending = asyncio.ensure_future(is_sending.wait())
    await asyncio.wait({asking, sending}, return_when=asyncio.FIRST_COMPLETED)
    sending.cancel()
    asking.cancel()
    (answer,) = await asyncio.gather(asking, return_exceptions=True)
    if isinstance(answer, httpx.Response):
        await answer.aclose()


async def pieces(response: httpx.Response) -> AsyncGenerator[bytes]:
    """Its body as it comes. Raises httpx.TransportError. To be let go afterwards."""
    # Not aiter_raw(), which closes at the end by itself: cancelled meanwhile it closes nothing.
    stream = response.stream
    assert isinstance(stream, httpx.AsyncByteStream)
    async for piece in stream:
        yield piece


async def let_go(response: httpx.Response) -> None:
    """Give its connection back, or close it where something is still to come on it."""
    await asyncio.shield(asyncio.ensure_future(_let_go(response)))


async def _let_go(response: httpx.Response) -> None:
    # uvicorn closes it after an error of the engine, without saying so, and a request that comes
    # before is lost: as if the engine had died.
    if response.is_server_error:
        await response.extensions["network_stream"].aclose()
    await response.aclose()

"""A small web server inside the simulation: for Docker's API, and for each engine."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

import uvicorn

type Scope = dict[str, Any]
type Receive = Callable[[], Awaitable[dict[str, Any]]]
type Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class SimulatedRequest:
    method: str
    path: str
    query: dict[str, str]
    body: bytes = b""

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body or b"{}")
        return found


@dataclass(kw_only=True)
class Reply:
    status: int = 200
    body: Any = b""  # bytes, or what is written as JSON
    kind: str = "application/json"
    stream: AsyncIterator[bytes] | None = None
    headers: dict[str, str] = field(default_factory=dict)


type Handle = Callable[[SimulatedRequest], Awaitable[Reply]]


def make_app(handle: Handle) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        query = {
            name: found[-1] for name, found in parse_qs(scope["query_string"].decode()).items()
        }
        asked = SimulatedRequest(
            method=scope["method"], path=unquote(scope["path"]), query=query, body=body
        )
        reply = await handle(asked)
        headers = {"content-type": reply.kind, **reply.headers}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        if reply.stream is None:
            content = (
                reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            )
            raw.append((b"content-length", str(len(content)).encode()))
            await send({"type": "http.response.start", "status": reply.status, "headers": raw})
            await send({"type": "http.response.body", "body": content})
            return
        await send({"type": "http.response.start", "status": reply.status, "headers": raw})
        await _stream(reply.stream, receive, send)

    return app


async def _stream(stream: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Until it ends, or nobody listens any more."""

    async def write() -> None:
        async for piece in stream:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def listen() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.create_task(write()), asyncio.create_task(listen())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError, OSError):
        await asyncio.gather(*tasks)
    if isinstance(stream, AsyncGenerator):
        await stream.aclose()


class Listening(uvicorn.Server):
    """One of several in a process, whose signals are its main program's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(handle: Handle, listening: socket.socket) -> Listening:
    """Begin to answer at a socket that is bound; ends with `should_exit`."""
    config = uvicorn.Config(
        make_app(handle),
        # What Docker's streams are read by speaks HTTP/1.0, which the faster parser answers in chunks.
        http="h11",
        lifespan="off",
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = Listening(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    _running.add(task)
    task.add_done_callback(_running.discard)
    return server


_running: set[asyncio.Task[None]] = set()

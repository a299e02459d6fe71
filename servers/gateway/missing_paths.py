"""Paths that an engine does not have: its own 404 says it in words that no program understands."""

import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from servers.gateway.messages.response import find_message
from servers.gateway.refusal import Refusal
from servers.gateway.routes import Route
from servers.host.gateway.relay import UpstreamResponse

# Bytes of a 404 that are read before it is passed on.
LOOKED_AT = 1 << 16
# So many that a long life fills no memory; what is forgotten is learned by the next request.
MOST = 1000
# What FastAPI (vLLM, SGLang), llama.cpp, Go's and nginx's servers say of a path that they do not
# have. Of a model that they do not have they say its name.
_SAID = frozenset(("", "not found", "file not found", "404 page not found", "404 not found"))


@dataclass
class Lacking:
    """What is known of the engines of runs: one that lacks a path lacks it until it ends."""

    _known: set[tuple[int, str]] = field(default_factory=set)

    def knows(self, run: int, path: str) -> bool:
        return (run, path) in self._known

    def note(self, run: int, path: str) -> None:
        if len(self._known) >= MOST:
            self._known.clear()
        self._known.add((run, path))


async def look(answer: UpstreamResponse) -> tuple[UpstreamResponse, bool]:
    """The same answer, and whether it says that the engine has no such path. Raises AwayError."""
    if answer.status != HTTPStatus.NOT_FOUND:
        return answer, False
    begun = b""
    async for piece in answer.pieces:
        begun += piece
        if len(begun) > LOOKED_AT:
            break
    return replace(answer, pieces=_replay(begun, answer.pieces)), _says_so(begun)


async def _replay(begun: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    if begun:
        yield begun
    async for piece in rest:
        yield piece


def _says_so(body: bytes) -> bool:
    text = body.decode(errors="replace").strip()
    if text.startswith("<"):
        return True
    with suppress(ValueError, RecursionError):
        text = find_message(json.loads(text))
    return text.strip(" .").casefold() in _SAID


def refusal(route: Route, path: str) -> Refusal:
    return Refusal(
        404, "no_such_path",
        f"The engine of {route.server} ({route.owner}) has no {path}. Ask another server, or by a "
        "path that it has.",
        server=route.server,
    )  # fmt: skip

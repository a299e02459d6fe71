"""A request to the gateway: its body, its model, its count, and paths that do not exist.

Without it nothing is known of what most chat pages use. Who has not asked must not see it: some
clients read the first of its choices, and it has none.
"""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from servers.gateway.callers import Receive, Refusal
from servers.gateway.messages.response import dump, find_message
from servers.gateway.routes import Route
from servers.host.gateway import UpstreamResponse
from servers.launch.engines import ENGINES

# Bytes. Several pictures in one conversation, base64.
MOST = 64 * 2**20
_FIELD = re.compile(
    rb'content-disposition: form-data; name="model"\r\n(?:content-[^\r\n]*\r\n)*\r\n([^\r\n]{1,300})\r\n',
    re.IGNORECASE,
)


class GoneError(Exception):
    """Who asked hung up before all of it was said."""


@dataclass(frozen=True, kw_only=True)
class GatewayRequest:
    body: bytes
    model: str | None  # None: it names none
    said: dict[str, object] | None  # None: no JSON

    def with_model(self, model: str) -> "GatewayRequest":
        """The same of another model."""
        if self.said is None:
            return replace(self, model=model)
        said = {**self.said, "model": model}
        return GatewayRequest(body=dump(said), model=model, said=said)

    def encode_for(self, model: str, more: dict[str, object]) -> bytes:
        """The body as the engine wants it, which knows only its own name."""
        if self.said is None:
            return self.body
        if self.model not in (None, model):
            more = {**more, "model": model}
        return dump({**self.said, **more}) if more else self.body


async def receive_request(receive: Receive, content_type: str) -> GatewayRequest:
    """Raises Refusal, GoneError."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        body += message.get("body", b"")
        if len(body) > MOST:
            raise Refusal(
                413, "too_large", f"The request is larger than {MOST >> 20} MiB. Send less at once."
            )
        if not message.get("more_body"):
            return _read(bytes(body), content_type)


def _read(body: bytes, content_type: str) -> GatewayRequest:
    if content_type.startswith("multipart/form-data"):
        found = _FIELD.search(body[: 1 << 16]) or _FIELD.search(body[-(1 << 16) :])
        name = found[1].decode(errors="replace") if found else None
        return GatewayRequest(body=body, model=name, said=None)
    if not body:
        return GatewayRequest(body=body, model=None, said=None)
    try:
        said = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "not_json", f"The body of the request is no JSON: {error}.") from error
    if not isinstance(said, dict):
        raise Refusal(400, "not_json", "The body of the request is no JSON object.")
    model = said.get("model")
    if model is not None and not isinstance(model, str):
        raise Refusal(400, "model_missing", "“model” must be a text: the name of a server.")
    return GatewayRequest(body=body, model=model or None, said=said)


PATHS = ("/v1/chat/completions", "/v1/completions")

_GAP = re.compile(rb"(\r?\n\r?\n)")
_NO_CHOICES = re.compile(rb'"choices":\s*\[\s*\]')


def asked_for(path: str, said: dict[str, object] | None, engine: str) -> dict[str, object]:
    """What is to be added to the body of a request; {} where nothing is."""
    if said is None or said.get("stream") is not True or path not in PATHS:
        return {}
    if not ENGINES[engine].counts_when_asked:
        return {}
    options = said.get("stream_options")
    if options is None:
        options = {}
    # What is no object, or says something strange, the engine refuses in its own words.
    if not isinstance(options, dict) or options.get("include_usage", False) is not False:
        return {}
    return {"stream_options": {**options, "include_usage": True}}


def drop_usage_event(events: bytes) -> bytes:
    """Whole events but the one that has the counts and nothing else."""
    if b'"usage"' not in events:
        return events
    parts = _GAP.split(events)
    return b"".join(
        event + gap
        for event, gap in zip(parts[::2], [*parts[1::2], b""], strict=True)
        if not _has_counts_alone(event)
    )


def _has_counts_alone(event: bytes) -> bool:
    if not event.startswith(b"data:") or not _NO_CHOICES.search(event):
        return False
    try:
        said = json.loads(event.removeprefix(b"data:"))
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(said, dict)
        and said.get("choices") == []
        and isinstance(said.get("usage"), dict)
        and "error" not in said
    )


# Bytes of a 404 that are read before it is passed on.
LOOKED_AT = 1 << 16
# So many that a long life fills no memory; what is forgotten is learned by the next request.
MOST_MISSING_PATHS = 1000
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
        if len(self._known) >= MOST_MISSING_PATHS:
            self._known.clear()
        self._known.add((run, path))


async def find_missing_path(answer: UpstreamResponse) -> tuple[UpstreamResponse, bool]:
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


def refuse_missing_path(route: Route, path: str) -> Refusal:
    return Refusal(
        404, "no_such_path",
        f"The engine of {route.server} ({route.owner}) has no {path}. Ask another server, or by a "
        "path that it has.",
        server=route.server,
    )  # fmt: skip

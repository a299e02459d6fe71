"""The only module that speaks HTTP to engines: is it up, what does it serve, chat with it.

They are there with VLLM_SERVER_DEV_MODE=1 alone. Level 1 keeps the weights in the machine's memory;
level 2 keeps nothing, so that they are read again.
"""

import json
import re
import time
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import httpx

from servers.host.http import bounded, connections, prometheus
from servers.host.http.bounded import BoundedResponse, BoundsError
from servers.host.http.connections import PROBE_TIMEOUT
from servers.host.http.prometheus import Exposed
from servers.host.http.wire import Way, WireError

_TOO_LONG = ("context size", "context length", "context window")
# vLLM, of a model for texts alone and of --limit-mm-per-prompt; llama.cpp without a projector,
# which it calls an error of the server's.
_BLIND = re.compile(
    r"is not a multimodal model|at most 0 image|image input is not supported", re.IGNORECASE
)
_TOO_MANY = re.compile(r"at most \d+ image", re.IGNORECASE)


def describe_refusal(body: bytes) -> str:
    """What an error body says, in any of the engines' shapes.

    vLLM and llama.cpp: {"error": {"message"}}; SGLang: {"message"}; FastAPI: {"detail"}.
    """
    text = body.decode(errors="replace").strip()
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return text[:500]
    if isinstance(answer, dict):
        error = answer.get("error", answer)
        if isinstance(error, dict):
            error = error.get("message") or error.get("detail") or error
        text = error if isinstance(error, str) else json.dumps(error)
    return text.strip()[:2000]


def advise_on_refusal(status: int, said: str) -> str:
    if any(sign in said.lower() for sign in _TOO_LONG):
        return "Start a new conversation, remove earlier messages, or lower max tokens."
    if _BLIND.search(said):
        return (
            "Remove the pictures of all questions, or start a new conversation with a server "
            "whose model takes them."
        )
    if _TOO_MANY.search(said):
        return (
            "The pictures of all questions go with each one: remove some, start a new "
            "conversation, or raise --limit-mm-per-prompt in the profile."
        )
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return "Its profile must name the engine's key, as --api-key or in the environment."
    if status == HTTPStatus.NOT_FOUND:
        return "Check that the image serves the OpenAI chat API and the profile's served name."
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        return "It is overloaded or shutting down: wait a little, then retry."
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return "Change the parameters or the message, then retry."
    return "Look at its log, then retry."


# An answer to a probe is a few KiB, vLLM's metrics some hundred; more is not an engine.
PROBE_LIMIT = 8 * 1024 * 1024
ERROR_LIMIT = 64 * 1024
CHAT_PATH = "/v1/chat/completions"


class EngineError(Exception):
    """An engine refused a chat or went away; the text is fit for a person.

    `detail` holds the engine's own words. `status` is its HTTP status, None when there
    was none.
    """

    def __init__(self, message: str, *, detail: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.detail = detail
        self.status = status


class HealthAnswer(StrEnum):
    """What an engine's health path says.

    LOADING is a 503, which engines also answer once they have died inside: after the
    first OK it means a fault, and only the caller knows whether there was one.
    """

    REFUSED = "refused"  # nothing listens: normal until the weights are loaded
    LOADING = "loading"
    OK = "ok"
    SILENT = "silent"  # it accepts, and gives no answer in time, or none that ends
    UNHEALTHY = "unhealthy"  # any other answer


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One engine's address and port: nothing else can be reached with it."""

    address: str
    port: int
    key: str = field(default="", repr=False)  # what the engine wants as bearer token
    via: Way | None = None  # None: it is on this machine

    def url(self, path: str) -> httpx.URL:
        if not path.startswith("/"):
            raise ValueError(f"{path!r} is not the absolute path of an engine.")
        return httpx.URL(scheme="http", host=self.address, port=self.port).copy_with(
            raw_path=path.encode()
        )

    @property
    def headers(self) -> dict[bytes, bytes]:
        return {b"Authorization": b"Bearer " + _letters(self.key)} if self.key else {}

    def build_request(
        self,
        method: str,
        path: str,
        headers: Iterable[tuple[bytes, bytes]] = (),
        *,
        json: object = None,
        content: bytes | None = None,
    ) -> httpx.Request:
        """For connections.send(), with the engine's key. Raises ValueError for a path that is none."""
        return connections.client().build_request(
            method,
            self.url(path),
            headers=[*headers, *self.headers.items()],
            json=json,
            content=content,
            extensions=dict(connections.lead(self.via)),
        )


def _letters(key: str) -> bytes:
    """As engines read a header, in Latin-1; whatever else somebody has put there fits no engine,
    and must break nothing."""
    try:
        return key.encode("latin-1")
    except UnicodeEncodeError:
        return key.encode(errors="replace")


def health(endpoint: Endpoint, path: str) -> HealthAnswer:
    """Ask the engine's cheap health path. Never raises: "not yet" is an answer.

    Which path costs a generation differs by engine: servers.launch.engines names the cheap one.
    """
    try:
        status = _get(endpoint, path).status
    except httpx.ConnectError:
        return HealthAnswer.REFUSED
    except (httpx.TransportError, BoundsError):
        return HealthAnswer.SILENT
    if status == httpx.codes.OK:
        return HealthAnswer.OK
    return (
        HealthAnswer.LOADING
        if status == httpx.codes.SERVICE_UNAVAILABLE
        else HealthAnswer.UNHEALTHY
    )


def models(endpoint: Endpoint, path: str = "/v1/models") -> list[str] | None:
    """The names that requests may give as model; None when the engine does not say."""
    listed = _parse_models(fetch_json(endpoint, path))
    if listed is None:
        return None
    names = [
        str(name)
        for model in listed
        for name in (model["id"], *_list(model.get("aliases")))  # llama.cpp's
    ]
    return list(dict.fromkeys(names))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _parse_models(answer: Any) -> list[dict[str, Any]] | None:
    """The models of an answer in OpenAI's format, which all engines follow: {"data": [{"id"}]}."""
    listed = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        return None
    return [model for model in listed if isinstance(model, dict) and "id" in model]


class PortKind(StrEnum):
    """What answers on a port of which nobody knows what it is."""

    NOTHING = "nothing"  # nothing listens, or what does hangs up without a word
    OTHER = "other"  # something that lists no models
    LOADING = "loading"  # 503
    LOCKED = "locked"  # it wants a key
    MODELS = "models"


@dataclass(frozen=True, kw_only=True)
class ModelListing:
    kind: PortKind
    names: tuple[str, ...] = ()
    owners: frozenset[str] = frozenset()  # what the models say that they belong to


def list_models(endpoint: Endpoint, path: str = "/v1/models") -> ModelListing:
    """Ask one question, a GET that no program takes for more, and tell what answers. Never raises."""
    try:
        got = _get(endpoint, path)
    except httpx.TransportError:
        return ModelListing(kind=PortKind.NOTHING)
    except BoundsError:
        return ModelListing(kind=PortKind.OTHER)
    status = got.status
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return ModelListing(kind=PortKind.LOCKED)
    if status == httpx.codes.SERVICE_UNAVAILABLE:
        return ModelListing(kind=PortKind.LOADING)
    try:
        found = _parse_models(json.loads(got.body)) if status == httpx.codes.OK else None
    except (ValueError, RecursionError):
        found = None
    if found is None:
        return ModelListing(kind=PortKind.OTHER)
    return ModelListing(
        kind=PortKind.MODELS,
        names=tuple(str(each["id"]) for each in found),
        owners=frozenset(str(each.get("owned_by") or "") for each in found),
    )


def version(endpoint: Endpoint, path: str, key: str) -> str | None:
    """The engine's version, found under `key` of the JSON at `path`; None when it does not say."""
    answer = fetch_json(endpoint, path)
    found = answer.get(key) if isinstance(answer, dict) else None
    return str(found) if found else None


def metrics(endpoint: Endpoint, names: Collection[str], path: str = "/metrics") -> dict[str, float]:
    """These metrics' values now, each summed over its series (models, ranks that share work).

    A name that the engine does not report is absent; the result is empty where metrics
    are switched off (SGLang answers 404 then, llama.cpp 501) or the engine is away.
    """
    return dict(fetch_metrics(endpoint, names, path=path).totals)


def fetch_metrics(
    endpoint: Endpoint,
    names: Collection[str],
    histograms: Collection[str] = (),
    *,
    path: str = "/metrics",
) -> Exposed:
    """The same with the buckets of histograms."""
    try:
        got = _get(endpoint, path)
    except (httpx.TransportError, BoundsError):
        return Exposed()
    if got.status != httpx.codes.OK:
        return Exposed()
    return prometheus.read(got.body.decode(errors="replace"), names, histograms)


def busy_slots(endpoint: Endpoint, path: str) -> int | None:
    """Requests that llama.cpp runs now, for builds whose metrics are off; None when unknown."""
    answer = fetch_json(endpoint, path)
    if not isinstance(answer, list):
        return None
    return sum(isinstance(slot, dict) and slot.get("is_processing") is True for slot in answer)


async def chat(
    endpoint: Endpoint, body: dict[str, Any], path: str = CHAT_PATH
) -> AsyncGenerator[bytes]:
    """The engine's answer to a streamed chat completion, in the pieces in which it arrives.

    Closing the generator, or cancelling whoever waits for it, closes the connection, which
    every engine takes as "stop generating". Raises EngineError when the engine cannot be
    reached, refuses, or goes away before the answer is complete.
    """
    wants = ((b"Accept", b"text/event-stream"), (b"Accept-Encoding", b"identity"))
    request = endpoint.build_request("POST", path, wants, json=body)
    try:
        response = await connections.send(request)
    except WireError as exc:
        raise EngineError(f"{exc} The engine goes on meanwhile. Try again later.") from exc
    except httpx.ConnectError as exc:
        raise EngineError(
            "The engine does not answer on its port: it has just died or is stopping. "
            "Look at its log, and start it again if it has ended.",
            detail=str(exc),
        ) from exc
    except httpx.TransportError as exc:
        raise EngineError(
            "The engine closed the connection without an answer. Look at its log, then try again.",
            detail=str(exc) or type(exc).__name__,
        ) from exc
    # Not `async with client.stream(...)`: leaving it by an exception of ours would read on.
    try:
        await _raise_for_refusal(response)
        async with aclosing(connections.pieces(response)) as pieces:
            async for piece in pieces:
                yield piece
    except httpx.TransportError as exc:
        raise EngineError(
            "The connection to the engine was lost in the middle of the answer: it has died, "
            "or it was stopped. What had arrived is kept. Look at its log, then retry.",
            detail=str(exc) or type(exc).__name__,
        ) from exc
    finally:
        await connections.let_go(response)


async def _raise_for_refusal(response: httpx.Response) -> None:
    if response.status_code != httpx.codes.OK:
        body = await bounded.begin(response, ERROR_LIMIT)
        raise _refusal(response.status_code, body)
    content_type = response.headers.get("content-type", "")
    if not content_type.startswith("text/event-stream"):
        raise EngineError(
            f"The engine answered with {content_type or 'no content type'} instead of a stream. "
            "Check that the profile's image serves the OpenAI chat API.",
            status=response.status_code,
        )


def _refusal(status: int, body: bytes) -> EngineError:
    words = describe_refusal(body)
    said = f": {words}" if words else "."
    separator = "" if said.endswith((".", "!", "?")) else "."
    advice = advise_on_refusal(status, words)
    return EngineError(
        f"The engine refused the request ({status}){said}{separator} {advice}",
        detail=words,
        status=status,
    )


def _get(endpoint: Endpoint, path: str) -> BoundedResponse:
    return connections.waited_for(_ask(endpoint, path))


def post(endpoint: Endpoint, path: str, body: object = None, *, within: float) -> None:
    """Have the engine do something, by a POST. Raises EngineError with its words where it does not."""
    asking = _ask(endpoint, path, method="POST", json=body, within=within)
    try:
        got = connections.waited_for(asking)
    except WireError as exc:
        raise EngineError(str(exc)) from exc
    except httpx.ConnectError as exc:
        raise EngineError("Nothing listens on the engine's port any more.") from exc
    except httpx.TransportError as exc:
        raise EngineError(f"The engine hung up at {path}.", detail=str(exc)) from exc
    except BoundsError as exc:
        raise EngineError(f"The engine, asked for {path}, {exc}.") from exc
    if got.status != httpx.codes.OK:
        words = describe_refusal(got.body)
        colon = f": {words}" if words else ""
        raise EngineError(f"The engine answered {path} with {got.status}{colon}", status=got.status)


async def _ask(
    endpoint: Endpoint,
    path: str,
    *,
    method: str = "GET",
    json: object = None,
    within: float = PROBE_TIMEOUT,
) -> BoundedResponse:
    wants = ((b"Accept-Encoding", b"identity"),)
    request = endpoint.build_request(method, path, wants, json=json)
    return await bounded.fetch(request, by=connections.client(), most=PROBE_LIMIT, within=within)


def fetch_json(endpoint: Endpoint, path: str) -> Any:
    """The JSON at this path; None when there is none."""
    try:
        got = _get(endpoint, path)
        return json.loads(got.body) if got.status == httpx.codes.OK else None
    except (httpx.TransportError, BoundsError, ValueError, RecursionError):
        return None


# Seconds. Some GiB a second go between a GPU and the machine's memory, weights from a disk slower.
WITHIN = 300.0
_SETTLES = 30.0  # it may answer before it has done so
_LOOK_EVERY = 0.25
# What is done to wake up from each level, as vLLM documents it.
_WAKE: dict[int, tuple[tuple[str, object], ...]] = {
    1: (("/wake_up", None),),
    2: (
        ("/wake_up?tags=weights", None),
        ("/collective_rpc", {"method": "reload_weights"}),
        ("/wake_up?tags=kv_cache", None),
    ),
}


def is_sleeping(endpoint: Endpoint) -> bool | None:
    """None where the engine does not say."""
    answer = fetch_json(endpoint, "/is_sleeping")
    found = answer.get("is_sleeping") if isinstance(answer, dict) else None
    return found if isinstance(found, bool) else None


def sleep(endpoint: Endpoint, level: int) -> None:
    """Return when it sleeps; requests that run meanwhile end first. Raises EngineError."""
    post(endpoint, f"/sleep?level={level}&mode=wait", within=WITHIN)
    _settle(endpoint, wanted=True)


def wake_engine(endpoint: Endpoint, level: int) -> None:
    """Return when it is awake. Raises EngineError."""
    for path, body in _WAKE[level]:
        post(endpoint, path, body, within=WITHIN)
    _settle(endpoint, wanted=False)


def _settle(endpoint: Endpoint, *, wanted: bool) -> None:
    until = time.monotonic() + _SETTLES
    while is_sleeping(endpoint) is not wanted:
        if time.monotonic() > until:
            state = "awake" if wanted else "asleep"
            raise EngineError(f"The engine said yes, and is still {state} {_SETTLES:.0f} s later.")
        time.sleep(_LOOK_EVERY)

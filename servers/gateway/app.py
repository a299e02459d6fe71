"""The gateway: it finds the engine of a request's model and passes both directions on."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from servers.gateway import calls, messages, requests
from servers.gateway.callers import (
    Application,
    Caller,
    Callers,
    LegacyPortListener,
    Message,
    Receive,
    Refusal,
    Scope,
    Send,
    not_allowed,
    source_of,
    unknown_host,
)
from servers.gateway.calls import Call, Calls
from servers.gateway.capture import Captures
from servers.gateway.messages import Translation
from servers.gateway.messages.response import MessagesStream, NotTranslatedError, translate_error
from servers.gateway.requests import GatewayRequest, GoneError, Lacking, receive_request
from servers.gateway.routes import NoRoute, Route, Routes, list_models
from servers.host.gateway import AwayError, UpstreamResponse, relay

MODELS = "/v1/models"
# What vLLM and SGLang have beside /v1, with a model in the body.
BESIDE = ("/tokenize", "/detokenize", "/score", "/rerank", "/pooling", "/classify")
# What clients ask whose base address lacks /v1.
WITHOUT_V1 = (
    *("/chat/completions", "/completions", "/embeddings", "/responses", "/messages", "/models"),
    "/v1",
)

# Of an engine's answer that is translated.
_KEPT = (b"retry-after", b"x-request-id")
LONGEST_TRANSLATED = 64 * 2**20  # bytes
LONGEST_EVENT = 1 << 20  # bytes; what is longer is passed on in pieces, too


def is_for_engines(path: str) -> bool:
    return path.startswith("/v1/") or path in BESIDE


def _is_astray(scope: Scope) -> bool:
    """It comes with a key for an engine, by a base address that is not quite the gateway's."""
    path = str(scope["path"])
    return (path in WITHOUT_V1 or path.startswith("//v1/")) and bool(
        _header(scope, b"authorization") or _header(scope, b"x-api-key")
    )


def _walks(path: str) -> bool:
    """What is under /v1/ by its letters may be another path of the engine's: /v1/../shutdown."""
    return not {".", ".."}.isdisjoint(path.split("/"))


class Gateway:
    """Answers what is for engines, and leaves all else to `others`."""

    def __init__(self, others: Application) -> None:
        self.others = others
        self.callers = Callers()
        self.routes = Routes()
        self.calls = Calls()
        self.captures = Captures()
        self.lacking = Lacking()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_for_engines(str(scope["path"])) or _is_astray(scope):
            if (refusal := unknown_host(scope)) is None:
                await self.answer(scope, receive, send)
            else:
                await refusal.answer(send, str(scope["path"]))
        else:
            await self.others(scope, receive, send)

    async def answer(
        self, scope: Scope, receive: Receive, send: Send, door: LegacyPortListener | None = None
    ) -> None:
        """A request for an engine, by the one address or by a legacy port's `door`."""
        path = str(scope["path"])
        call = Call(path=path, began=time.monotonic())
        speaking = _Speaking(send, call)
        try:
            caller = await self._caller(scope, call, door)
            await self.routes.look()
            if not is_for_engines(path) or _walks(path) or path.startswith("/v1/v1/"):
                raise Refusal(
                    404, "no_such_path",
                    f"Engines are reached under /v1/, not {path}. The base address ends in /v1 for "
                    "clients of OpenAI’s API, and before it for those of Anthropic’s.",
                )  # fmt: skip
            if path.startswith(MODELS):
                await self._list(scope, speaking, caller)
                return
            call.set_caller(caller)
            self.callers.count(caller)
            if (packed := _header(scope, b"content-encoding")) not in ("", "identity"):
                raise Refusal(
                    415, "compressed",
                    f"The body is compressed ({packed}), which engines do not read. Send it without "
                    "Content-Encoding.",
                )  # fmt: skip
            question = await receive_request(receive, _header(scope, b"content-type"))
            call.model = question.model or ""
            if door is not None and door.model and not self.routes.knows(question.model):
                question = question.with_model(door.model)
            async with _until_gone(receive, speaking):
                await self._pass_on(scope, question, speaking, call, caller)
        except GoneError:
            call.cancelled = True
        except Refusal as refusal:
            call.fail(refusal.status, refusal.message, server=refusal.server)
            await speaking.refuse(refusal, path)
        if call.caller is not None:
            await self.calls.keep(call)

    async def _caller(self, scope: Scope, call: Call, door: LegacyPortListener | None) -> Caller:
        """Raises Refusal."""
        if door is not None and (caller := door.caller(scope)) is not None:
            call.came_by(door.pk, source_of(scope))
            return caller
        return await self.callers.identify(scope["headers"])

    async def _list(self, scope: Scope, speaking: "_Speaking", caller: Caller) -> None:
        """What is ready, in OpenAI's form; or the one that the path names."""
        if scope["method"] not in ("GET", "HEAD"):
            raise Refusal(405, "method_not_allowed", f"{MODELS} is only read.")
        shown: list[Route | NoRoute] = [*self.routes.ready, *self.routes.startable]
        data = list_models(
            (each for each in shown if caller.may_ask(each.names)), sees_causes=caller.sees_causes
        )
        found = {str(each["id"]): each for each in data}
        wanted = str(scope["path"])[len(MODELS) :].strip("/")
        if wanted and wanted not in found:
            may = caller.may_ask
            route = self.routes.find(wanted, may=may)
            if route is None and (other := self.routes.find(wanted)) is not None:
                raise not_allowed(caller, other.server)
            if route is None:
                raise self.routes.absent(wanted, may=may, sees_causes=caller.sees_causes)
            wanted = route.model
        answer = found.get(wanted) or {"object": "list", "data": data}
        await speaking.say_json(answer)

    async def _pass_on(
        self,
        scope: Scope,
        question: GatewayRequest,
        speaking: "_Speaking",
        call: Call,
        caller: Caller,
    ) -> None:
        path = scope["raw_path"].decode("ascii")
        if query := scope.get("query_string"):
            path += "?" + query.decode("ascii")
        kind = _header(scope, b"content-type")
        gone: frozenset[int] = frozenset()
        while True:
            route = await calls.route_cold_start(self.routes, question.model, caller, but=gone)
            await self.captures.look()
            call.set_route(route)
            call.recording = self.captures.start_recording(route, question.body, kind)
            translation = self._translate(scope, question, route)
            more = requests.asked_for(call.path, question.said, route.owner)
            asked = (
                (translation.path, translation.body)
                if translation
                else (path, question.encode_for(route.model, more))
            )
            with self.routes.hold_route(route):
                calls.stay_awake()
                try:
                    async with relay(
                        route.endpoint, scope["method"], asked[0], scope["headers"], asked[1]
                    ) as answer:
                        answer, is_lacking = await requests.find_missing_path(answer)
                        if not is_lacking and translation is None:
                            await speaking.pass_on(answer, hides_counts=bool(more))
                        elif not is_lacking and translation is not None:
                            await speaking.pass_on_translated(answer, translation)
                    if not is_lacking:
                        return
                    if translation is not None or not _may_translate(scope, question):
                        raise requests.refuse_missing_path(route, call.path)
                    self.lacking.note(route.run, call.path)
                except AwayError as error:
                    # Its port is closed: it has seen nothing, so another one may answer.
                    if not error.was_refused or speaking.has_begun:
                        raise _refuse_lost(route, error, has_begun=speaking.has_begun) from error
                    gone |= {route.run}
                    await self.routes.look(anew=True)
                    if not any(
                        question.model in each.names and each.run not in gone
                        for each in self.routes.ready
                        if caller.may_ask(each.names)
                    ):
                        raise _refuse_lost(route, error, has_begun=False) from error

    def _translate(
        self, scope: Scope, question: GatewayRequest, route: Route
    ) -> Translation | None:
        """Raises Refusal."""
        path = str(scope["path"])
        if not _may_translate(scope, question) or not self.lacking.knows(route.run, path):
            return None
        return messages.translate(path, question.said or {}, model=route.model, engine=route.owner)


def _may_translate(scope: Scope, question: GatewayRequest) -> bool:
    """Whether an engine that lacks the path can be asked in other words."""
    is_theirs = scope["method"] == "POST" and scope["path"] in messages.PATHS
    return is_theirs and question.said is not None


def _refuse_lost(route: Route, error: AwayError, *, has_begun: bool) -> Refusal:
    if error.is_cut:
        says = f"{route.server} cannot be reached. {error}"
        return Refusal(502, "box_away", says, server=route.server)
    where = "in the middle of its answer" if has_begun else "without an answer"
    says = (
        f"{route.server} does not answer on its port: it has just died or is stopping"
        if error.was_refused
        else f"{route.server} hung up {where}: it has died, or was stopped"
    )
    return Refusal(
        502, "engine_lost", f"{says}. Its page in inferdash says why.", server=route.server
    )


def _refuse_untranslated(why: str) -> Refusal:
    return Refusal(502, "not_translated", f"The engine’s answer cannot be translated: {why}")


class _Speaking:
    """The answer to one request: begun once, ended once."""

    def __init__(self, send: Send, call: Call) -> None:
        self._send = send
        self._call = call
        self.has_begun = False
        self.has_ended = False
        self._is_stream = False

    async def pass_on(self, answer: UpstreamResponse, *, hides_counts: bool) -> None:
        """Raises AwayError when the engine hangs up; what has come is passed on by then."""
        self._is_stream = any(
            name == b"content-type" and value.startswith(b"text/event-stream")
            for name, value in answer.headers
        )
        self._call.status = answer.status
        headers = [*answer.headers]
        if self._is_stream:
            headers.append((b"x-accel-buffering", b"no"))
        await self._begin(answer.status, headers)
        if self._call.recording is not None:
            self._call.recording.begins(answer.headers)
        rest = b""
        async for piece in answer.pieces:
            self._call.add_piece(piece)
            if self._is_stream:
                piece, rest = _whole_events(rest + piece)
                if hides_counts:
                    piece = requests.drop_usage_event(piece)
            if piece:
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._end(rest)

    async def pass_on_translated(self, answer: UpstreamResponse, translation: Translation) -> None:
        """Raises AwayError like pass_on, and Refusal for what the Messages API cannot say."""
        if self._call.recording is not None:
            self._call.recording.begins(answer.headers)
        headers = dict(answer.headers)
        kept = [(name, headers[name]) for name in _KEPT if name in headers]
        is_stream = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        if answer.status == HTTPStatus.OK and is_stream and translation.is_stream:
            await self._stream_translated(answer, kept)
            return
        body = bytearray()
        async for piece in answer.pieces:
            self._call.add_piece(piece)
            body += piece
            if len(body) > LONGEST_TRANSLATED:
                raise _refuse_untranslated(f"it is larger than {LONGEST_TRANSLATED >> 20} MiB")
        if answer.status != HTTPStatus.OK:
            said = translate_error(answer.status, bytes(body))
        else:
            try:
                said = translation.translate_answer(bytes(body))
            except NotTranslatedError as error:
                raise _refuse_untranslated(str(error)) from error
        self._call.status = answer.status
        await self._begin(answer.status, [*kept, (b"content-type", b"application/json")])
        await self._end(said)

    async def _stream_translated(
        self, answer: UpstreamResponse, kept: list[tuple[bytes, bytes]]
    ) -> None:
        self._is_stream, self._call.status = True, answer.status
        kind = (b"content-type", b"text/event-stream; charset=utf-8")
        await self._begin(
            answer.status,
            [*kept, kind, (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")],
        )
        stream = MessagesStream()
        async for piece in answer.pieces:
            self._call.add_piece(piece)
            if said := stream.hear(piece):
                await self._send({"type": "http.response.body", "body": said, "more_body": True})
            if stream.error:
                break
        last = stream.end()
        if stream.error:
            self._call.fail(HTTPStatus.BAD_GATEWAY, stream.error)
        await self._end(last)

    async def refuse(self, refusal: Refusal, path: str) -> None:
        if not self.has_begun:
            self.has_begun = True
            await refusal.answer(self._send, path, self._notices)
        elif self._is_stream:
            await self._end(refusal.event(path))
        # Else nothing: an answer that is cut off must not look whole, and without its end the
        # server cuts the connection.

    async def say_json(self, answer: object) -> None:
        body = json.dumps(answer, ensure_ascii=False).encode()
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        await self._begin(200, headers)
        await self._end(body)

    async def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.has_begun = True
        headers = [*headers, *self._notices]
        start: Message = {"type": "http.response.start", "status": status, "headers": headers}
        await self._send(start)

    @property
    def _notices(self) -> list[tuple[bytes, bytes]]:
        recording = self._call.recording
        return [recording.switched.header] if recording is not None else []

    async def _end(self, body: bytes = b"") -> None:
        self.has_ended = True
        await self._send({"type": "http.response.body", "body": body})


def _whole_events(text: bytes) -> tuple[bytes, bytes]:
    """What may be said, and the beginning of an event.

    Nobody can read half an event; and where the engine dies in the middle of one, a client can
    read the error that follows only if it was not said.
    """
    ends = [at + len(gap) for gap in (b"\n\n", b"\r\n\r\n") if (at := text.rfind(gap)) >= 0]
    if not ends and len(text) < LONGEST_EVENT:
        return b"", text
    end = max(ends, default=len(text))
    return text[:end], text[end:]


@asynccontextmanager
async def _until_gone(receive: Receive, speaking: _Speaking) -> AsyncIterator[None]:
    """Ends what is within as soon as who asked hangs up. Raises GoneError then."""
    within = asyncio.current_task()
    assert within is not None
    is_gone = False

    async def watch() -> None:
        nonlocal is_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        # Servers say so as soon as the answer is whole, too, though nobody has hung up.
        if not speaking.has_ended:
            is_gone = True
            within.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not is_gone:
            raise
        within.uncancel()
        raise GoneError from None
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


def _header(scope: Scope, wanted: bytes) -> str:
    return next(
        (value.decode("latin-1") for name, value in scope["headers"] if name == wanted), ""
    ).casefold()

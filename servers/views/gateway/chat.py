"""The playground: its page, its fixes, and the stream between a browser and the engine of one run."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from redis.exceptions import RedisError

from servers.contexts import gateway
from servers.forms.conversation import CHAT_LIMIT, COLUMNS, Ask, AskError, read_chat
from servers.gateway import answers, calls
from servers.gateway.calls import Call, event
from servers.gateway.calls import error as told_error
from servers.gateway.routes import why_not
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint, EngineError
from servers.launch import numbers
from servers.launch.engines import sampling
from servers.lifecycle.gateway import NotStartedError, describe_sleep_clause
from servers.lifecycle.links import ways
from servers.lifecycle.profiles import checks
from servers.lifecycle.runs import starts
from servers.lifecycle.runs.ownership import require_managed
from servers.models import (
    ActiveUser,
    AuditEntry,
    Conversation,
    Permission,
    Run,
    RunHealth,
    Server,
    User,
)
from servers.models.runs.run import DesiredState, RunState
from servers.templatetags.launches import change_words
from servers.views.access import PersonRequest, get, post
from servers.views.profiles.profiles import find, save_launch
from servers.views.responses import respond_done

# Reverse proxies give up on a silent answer after a minute or so; a long prompt takes longer.
HEARTBEAT = 15.0
OK, BAD_GATEWAY, NOT_READY, UNAVAILABLE = 200, 502, 503, 503

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ChatTarget:
    """The engine that answers, and how it wants to be called."""

    run_id: int
    server: str
    model: str
    engine: str
    endpoint: Endpoint
    server_id: int
    wakes_within: int | None  # seconds for which a question to one that sleeps waits; None: awake


@get("chat/", Permission.CHAT)
@get("chat/<slug:key>/", Permission.CHAT, name="chat_conversation")
def chat(request: PersonRequest, key: str = "") -> HttpResponse:
    """A new conversation; or the person's own with that key. Others' are not there for them."""
    if key:
        found = get_object_or_404(Conversation.objects.owned_by(request.user), key=key)
        if found.comparison:
            return redirect("comparison", found.comparison)
    context = build_context(request) | {"conversation": key}
    return render(request, "gateway/chat/page.html", context)


@get("chat/compare/", Permission.CHAT)
@get("chat/compare/<slug:key>/", Permission.CHAT, name="comparison")
def compare(request: PersonRequest, key: str = "") -> HttpResponse:
    """A new comparison; or the person's own with that key."""
    columns = list(
        Conversation.objects.owned_by(request.user).in_comparison(key).values_list("key", flat=True)
    )
    if key and not columns:
        raise Http404
    more = {
        "columns": columns,
        "comparison": key,
        "most": COLUMNS,
        "told_label": "System prompt of this column alone",
        "told_default": "as all columns",
        "beginning": request.GET.get("from", ""),
    }
    return render(request, "gateway/chat/compare.html", build_context(request) | more)


def build_context(request: PersonRequest) -> dict[str, Any]:
    """What every page has on which servers are asked."""
    return {
        "servers": Server.objects.for_dashboard(),
        "preselected": request.GET.get("server", ""),
        "here": " ".join(ways.list_reachable()),
        "csrf_cookie": settings.CSRF_COOKIE_NAME,
        "parameters": sampling.PARAMETERS,
        "parameter_table": sampling.table(),
        **gateway.describe_sidebar(request.user),
    }


@post("chat/completions/", Permission.CHAT)
async def chat_completions(request: PersonRequest) -> StreamingHttpResponse:
    """Stream the engine's own events; everything that fails becomes an event named error."""
    try:
        ask = read_chat(_body(request))
        target = await _find_target(ask.run_id, request.user)
        events = _answer(ask, target, request.user)
        if ask.conversation and ask.answer:
            name = answers.Name(request.user.pk, ask.conversation, ask.answer)
            events = answers.begin(name, events)
    except answers.TooManyError:
        events = _only_error(
            f"{answers.AT_ONCE} of your answers are still arriving. Stop one of them, then retry."
        )
    except AskError as error:
        events = _only_error(str(error))
    return _stream(events)


@get("chat/answers/<slug:conversation>/<slug:key>/", Permission.CHAT)
async def chat_answer(request: PersonRequest, conversation: str, key: str) -> HttpResponseBase:
    """An answer from its beginning, and on as it arrives."""
    name = answers.Name(request.user.pk, conversation, key)
    try:
        if not await answers.is_there(name):
            raise Http404
    except RedisError:
        logger.exception("Redis does not say whether there is an answer")
        return HttpResponse(status=UNAVAILABLE)
    return _stream(answers.follow(name))


@post("chat/answers/<slug:conversation>/<slug:key>/stop/", Permission.CHAT)
async def chat_answer_stop(request: PersonRequest, conversation: str, key: str) -> HttpResponse:
    try:
        await answers.stop(answers.Name(request.user.pk, conversation, key))
    except RedisError:
        logger.exception("Redis does not take that an answer is to stop")
        return HttpResponse(status=UNAVAILABLE)
    return respond_done()


def _stream(events: AsyncGenerator[bytes]) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        events,
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _body(request: PersonRequest) -> bytes:
    """Not request.body, whose limit is one for forms: pictures are larger. Raises AskError."""
    body = request.read(CHAT_LIMIT + 1)
    if len(body) > CHAT_LIMIT:
        raise AskError(
            f"The conversation is larger than {CHAT_LIMIT / 2**20:.0f} MiB. Start a new one, or "
            "remove earlier messages or pictures."
        )
    return body


async def _find_target(run_id: int, person: User) -> ChatTarget:
    """Raises AskError; what was asked of a server that does not answer is written down, too."""
    try:
        return await sync_to_async(_target)(run_id, person)
    except _NotReadyError as error:
        run = error.run
        await calls.record_refusal(
            person=person.pk, run=run.pk, server=run.server.slug, model=run.served_name,
            message=str(error),
        )  # fmt: skip
        raise


class _NotReadyError(AskError):
    def __init__(self, run: Run, message: str) -> None:
        super().__init__(message)
        self.run = run


def _target(run_id: int, person: User) -> ChatTarget:
    """Where the run's engine answers. Raises AskError when it does not, or not any more."""
    run = (
        Run.objects.select_related("server__box", "version", "plan", "health")
        .filter(pk=run_id)
        .first()
    )
    if run is None:
        raise AskError("This server was removed. Pick another one at the top, then retry.")
    server = run.server
    if unreachable := ways.explain_unreachable(server.box):
        # Its address is one as seen from its own box: asked from here it is somebody else's.
        raise AskError(f"{server} cannot be asked from here. {unreachable} Or pick another server.")
    if not run.version.launch.serves_models:
        raise AskError(
            f"{server} serves no model, so that nobody can talk to it. Pick another one."
        )
    if run.wanted != DesiredState.RUNNING:
        raise _NotReadyError(run, _describe_stopped(run))
    endpoint = starts.find_endpoint(run)
    if run.state != RunState.READY or endpoint is None:
        raise _NotReadyError(run, _why_not(run, person))
    return ChatTarget(
        run_id=run.pk,
        server=str(server),
        model=run.served_name,
        engine=run.version.launch.engine,
        endpoint=endpoint,
        server_id=server.pk,
        wakes_within=run.launch.hold_requests if run.sleeps else None,
    )


def _why_not(run: Run, person: User) -> str:
    if run.server.run_id != run.pk:
        return f"This run of {run.server} is over. Ask again: it goes to the one that is up."
    if run.state == RunState.READY:
        return f"{run.server} says that it is ready, and nobody knows its port. See its page."
    if not person.may_view:
        # A cause quotes the log.
        return f"{run.server} is not ready. Try again a little later, or pick another server."
    return f"{why_not(run.server)} Or pick another server."


def _describe_stopped(run: Run) -> str:
    by = f" by {run.stopped_by}" if run.stopped_by else ""
    return f"{run.server} was told to stop{by}. Start it again on its page, or pick another server."


async def _answer(ask: Ask, target: ChatTarget, person: User) -> AsyncGenerator[bytes]:
    # What the page shows as the raw request: it has the messages itself.
    yield event("request", ask.build_request(target.model, target.engine))
    async with calls.open_call(
        person=person.pk, run=target.run_id, server=target.server, model=target.model
    ) as call:
        try:
            async with aclosing(_woken(target, person)) as beats:
                async for beat in beats:
                    yield beat
            async with aclosing(_pieces(ask, target, person, call)) as pieces:
                async for piece in pieces:
                    yield piece
        except NotStartedError as error:
            call.fail(NOT_READY, str(error))
            yield told_error(str(error) if person.may_view else error.brief)
        except EngineError as error:
            message = await database_sync_to_async(_cause)(target) or str(error)
            call.fail(error.status or BAD_GATEWAY, message)
            yield told_error(message, error.detail)


async def _woken(target: ChatTarget, person: User) -> AsyncGenerator[bytes]:
    """Comments until an engine that sleeps is awake. Raises NotStartedError."""
    if target.wakes_within is None:
        return
    waking = asyncio.ensure_future(
        calls.keep_awake(
            person=person.pk, server=target.server_id, run=target.run_id,
            seconds=target.wakes_within,
        )
    )  # fmt: skip
    try:
        while not (await asyncio.wait({waking}, timeout=HEARTBEAT))[0]:
            yield b": the engine wakes up\n\n"
        await waking
    finally:
        waking.cancel()
    run = await Run.objects.select_related("server").aget(pk=target.run_id)
    if run.sleeps:
        waited = numbers.format_duration(target.wakes_within) if target.wakes_within else "no time"
        clause = describe_sleep_clause(run)
        late = f"{run.server} {clause}, and was not awake within {waited}."
        later = f"{late} Try again a little later."
        raise NotStartedError(
            f"{late} {run.sleep_trouble}" if run.sleep_trouble else later, brief=later
        )


async def _pieces(ask: Ask, target: ChatTarget, person: User, call: Call) -> AsyncGenerator[bytes]:
    noting: asyncio.Future[None] | None = None
    said = _record_pieces(probes.chat(target.endpoint, ask.body(target.model, target.engine)), call)
    try:
        async with aclosing(_with_heartbeat(said)) as events:
            async for piece in events:
                yield piece
                # Beside the stream, and not before it: the first token must not wait.
                # An answer may outlive its request, and what that would have closed.
                note = database_sync_to_async(_note)
                noting = noting or asyncio.ensure_future(note(target, person))
    finally:
        if noting is not None:
            await noting


async def _record_pieces(pieces: AsyncGenerator[bytes], call: Call) -> AsyncGenerator[bytes]:
    async with aclosing(pieces):
        async for piece in pieces:
            call.status = call.status or OK
            call.add_piece(piece)
            yield piece


async def _with_heartbeat(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The same pieces, with a comment every now and then until the first one comes."""
    async with aclosing(pieces):
        first = asyncio.ensure_future(anext(pieces, b""))
        try:
            while not (await asyncio.wait({first}, timeout=HEARTBEAT))[0]:
                yield b": the engine has not begun to answer\n\n"
            yield await first
        finally:
            if first.cancel():
                with suppress(asyncio.CancelledError):
                    await first
        async for piece in pieces:
            yield piece


def _note(target: ChatTarget, person: User) -> None:
    now = timezone.now()
    RunHealth.objects.filter(run=target.run_id).update(last_request_at=now)
    ActiveUser.objects.update_or_create(run_id=target.run_id, by=person, defaults={"at": now})
    # Who used a run is worth a line, each of their messages is not.
    began = Run.objects.values_list("created_at", flat=True).get(pk=target.run_id)
    mine = AuditEntry.objects.filter(by=person, action="chat", subject=target.server, at__gte=began)
    if not mine.exists():
        AuditEntry.note(person, "chat", target.server, run=target.run_id)


def _cause(target: ChatTarget) -> str:
    """Why the engine went away in mid-answer, when a person is the reason; else ""."""
    run = Run.objects.select_related("server", "stopped_by").filter(pk=target.run_id).first()
    return _describe_stopped(run) if run is not None and run.wanted != DesiredState.RUNNING else ""


async def _only_error(message: str) -> AsyncGenerator[bytes]:
    yield told_error(message)


@post("chat/fixes/<slug:slug>/<slug:key>/", Permission.OPERATE)
def chat_fix(request: PersonRequest, slug: str, key: str) -> HttpResponse:
    """Save the fix as the profile's newest version. What runs goes on as it is."""
    shown = Server.objects.select_related(
        "profile__current", "box", "run__health", "run__log", "run__start"
    )
    server = require_managed(get_object_or_404(shown, slug=slug, removed_at=None))
    profile = find(request, server.profile.slug)
    lack = next((each for each in checks.list_features(server) if each.key == key), None)
    if lack is None:
        messages.info(request, f"{profile} has it already. Restart {server}, and it counts.")
        return redirect("profile", slug=profile.slug)
    if lack.fix is None:
        raise Http404(f"{lack.says} Edit the profile.")
    words = change_words(lack.fix)
    launch = lack.fix.apply(profile.launch)
    version = save_launch(
        profile, launch, by=request.user, message=f"Fix: {words}", action="apply fix"
    )
    messages.success(
        request,
        f"Saved as version {version.number}: {words}. It counts when {server} is restarted.",
    )
    return redirect("profile", slug=profile.slug)

"""The playground: its page, and the stream between a browser and the engine of one run."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from servers.forms.chat import Ask, AskError, read
from servers.host import probes
from servers.host.probes import Endpoint, EngineError
from servers.models import Entry, Role, Run, Server, User
from servers.models.run import State, Wanted
from servers.views.access import PersonRequest, allow

# Reverse proxies give up on a silent answer after a minute or so; a long prompt takes longer.
HEARTBEAT = 15.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """The engine that answers, and how it wants to be called."""

    run_id: int
    server: str
    model: str
    endpoint: Endpoint


@require_GET
@allow(Role.OPERATOR)
def chat(request: PersonRequest) -> HttpResponse:
    servers = Server.objects.for_dashboard()
    return render(
        request,
        "chat/page.html",
        {"servers": servers, "preselected": request.GET.get("server", ""), "here": settings.BOX},
    )


@require_POST
@allow(Role.OPERATOR)
async def chat_completions(request: PersonRequest) -> StreamingHttpResponse:
    """Stream the engine's own events; everything that fails becomes an event named error."""
    try:
        ask = read(request.body)
        target = await sync_to_async(_target)(ask.run_id)
        events = _answer(ask, target, request.user)
    except RequestDataTooBig:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE / 2**20
        events = _only_error(
            f"The conversation is larger than {limit:.1f} MiB. Start a new one, or remove "
            "earlier messages."
        )
    except AskError as error:
        events = _only_error(str(error))
    return StreamingHttpResponse(
        events,
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _target(run_id: int) -> Target:
    """Where the run's engine answers. Raises AskError when it does not, or not any more."""
    run = Run.objects.select_related("server__box", "version").filter(pk=run_id).first()
    if run is None:
        raise AskError("This server was removed. Pick another one at the top, then retry.")
    server = run.server
    if server.box.slug != settings.BOX:
        # Its address is one as seen from its own box: asked from here it is somebody else's.
        raise AskError(
            f"{server} runs on {server.box}, and the playground reaches only servers on "
            f"{settings.BOX}. Pick one of those, or open inferdash on {server.box}."
        )
    if run.wanted != Wanted.RUNNING:
        raise AskError(_stopped(run))
    endpoint = run.endpoint
    if run.state != State.READY or endpoint is None:
        raise AskError(
            f"{server} is {run.state}, not ready. Pick another server, or see its page for why "
            "and start it again."
        )
    return Target(run_id=run.pk, server=str(server), model=run.served_name, endpoint=endpoint)


def _stopped(run: Run) -> str:
    by = f" by {run.stopped_by}" if run.stopped_by else ""
    return f"{run.server} was told to stop{by}. Start it again on its page, or pick another server."


async def _answer(ask: Ask, target: Target, person: User) -> AsyncGenerator[bytes]:
    noting: asyncio.Future[None] | None = None
    try:
        pieces = probes.chat(target.endpoint, ask.body(target.model))
        async with aclosing(_with_heartbeat(pieces)) as events:
            async for piece in events:
                yield piece
                # Beside the stream, and not before it: the first token must not wait.
                noting = noting or asyncio.ensure_future(sync_to_async(_note)(target, person))
    except EngineError as error:
        cause = await sync_to_async(_cause)(target)
        yield _error(cause or str(error), error.detail)
    finally:
        if noting is not None:
            await noting


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


def _note(target: Target, person: User) -> None:
    now = timezone.now()
    Run.objects.filter(pk=target.run_id).update(last_request_at=now)
    # Who used a run is worth a line, each of their messages is not.
    began = Run.objects.values_list("created_at", flat=True).get(pk=target.run_id)
    mine = Entry.objects.filter(by=person, action="chat", subject=target.server, at__gte=began)
    if not mine.exists():
        Entry.note(person, "chat", target.server, run=target.run_id)


def _cause(target: Target) -> str:
    """Why the engine went away in mid-answer, when a person is the reason; else ""."""
    run = Run.objects.select_related("server", "stopped_by").filter(pk=target.run_id).first()
    return _stopped(run) if run is not None and run.wanted != Wanted.RUNNING else ""


async def _only_error(message: str) -> AsyncGenerator[bytes]:
    yield _error(message)


def _error(message: str, detail: str = "") -> bytes:
    # The blank line in front ends whatever event the engine was cut off in.
    data = json.dumps({"message": message, "detail": detail})
    return f"\n\nevent: error\ndata: {data}\n\n".encode()

"""One call through the gateway: its session, a cold start, and the record that is kept of it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeGuard

from asgiref.sync import sync_to_async
from django.db import IntegrityError, transaction
from django.db.models import Model
from django.utils import timezone
from redis import RedisError

from servers import events, tasks
from servers.events import wait_async
from servers.gateway import capture
from servers.gateway.callers import Caller, Refusal, not_allowed
from servers.gateway.capture import CallRecorder
from servers.gateway.routes import PASSING, NoRoute, Route, Routes
from servers.host.runs.probes import CHAT_PATH
from servers.lifecycle import gateway
from servers.lifecycle.gateway import NotStartedError
from servers.models import ActiveUser, Key, LegacyPort, Request, Run, RunHealth, Server, Usage, User

# Bytes of an answer's beginning and end in which its token counts are looked for.
HEAD, TAIL = 4096, 16384
GATHERED = 0.25  # seconds in which calls that end are gathered for one write
# Names of the counts, as OpenAI's, Anthropic's and the Responses API write them.
_COUNTS = {
    "prompt_tokens": ("prompt_tokens", "input_tokens"),
    "completion_tokens": ("completion_tokens", "output_tokens"),
}
# What a request is about.
_ABOUT: dict[str, type[Model]] = {
    "key_id": Key, "person_id": User, "run_id": Run, "old_port_id": LegacyPort,
}  # fmt: skip
_DETAILS = ("prompt_tokens_details", "input_tokens_details")


@dataclass
class Call:
    path: str
    began: float  # time.monotonic()
    caller: Caller | None = None  # None: a person with a session
    person: int | None = None
    model: str = ""
    route: Route | None = None
    run: int | None = None
    old_port: int | None = None
    source: str | None = None  # the address, of who needed no key
    status: int = 0
    first: float | None = None  # seconds until the first byte
    cancelled: bool = False
    error: str = ""
    server: str = ""
    recording: CallRecorder | None = None  # None: the words are not kept
    _head: bytes = b""
    _tail: bytes = b""

    def set_caller(self, caller: Caller) -> None:
        self.caller, self.person = caller, caller.person

    def came_by(self, old_port: int, source: str | None) -> None:
        self.old_port, self.source = old_port, source

    def set_route(self, route: Route) -> None:
        self.route, self.run, self.server = route, route.run, route.server

    def add_piece(self, piece: bytes) -> None:
        if self.first is None:
            self.first = time.monotonic() - self.began
        if len(self._head) < HEAD:
            self._head += piece[: HEAD - len(self._head)]
        self._tail = (self._tail + piece)[-TAIL:]
        if self.recording is not None:
            self.recording.add_piece(piece)

    def fail(self, status: int, message: str, *, server: str = "") -> None:
        self.status, self.error = status, message
        self.server = self.server or server

    @property
    def counts(self) -> dict[str, int]:
        """What the answer says of its tokens; {} where it says nothing."""
        found = _of_timings(_last("timings", self._tail))
        for usage in (_last("usage", self._head), _last("usage", self._tail)):
            for name, keys in _COUNTS.items():
                for key in keys:
                    if _is_count(count := usage.get(key)):
                        found[name] = count
            for key in _DETAILS:
                details = usage.get(key)
                cached = details.get("cached_tokens") if isinstance(details, dict) else None
                if _is_count(cached):
                    found["cached_tokens"] = cached
        return found


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _trim_for_column(text: str, most: int) -> str:
    """As far as a column takes it, and without what databases refuse: one row would take all that
    are written with it along."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")[:most]


def _of_timings(timings: dict[str, object]) -> dict[str, int]:
    """llama.cpp's, which it sends unasked; what it took from its cache is not in `prompt_n`."""
    read, cached = timings.get("prompt_n"), timings.get("cache_n", 0)
    written = timings.get("predicted_n")
    if not (_is_count(read) and _is_count(cached) and _is_count(written)):
        return {}
    found = {"prompt_tokens": read + cached, "completion_tokens": written}
    return found | ({"cached_tokens": cached} if "cache_n" in timings else {})


def _last(name: str, text: bytes) -> dict[str, object]:
    """The last so named that is an object. One within a text has a backslash before its quotes."""
    key, said = f'"{name}"', text.decode(errors="replace")
    at = len(said)
    while (at := said.rfind(key, 0, at)) >= 0:
        _, colon, rest = said[at:].partition(":")
        if colon and said[at - 1 : at] != "\\":
            try:
                found, _end = json.JSONDecoder().raw_decode(rest.lstrip())
            except (ValueError, RecursionError):
                found = None
            if isinstance(found, dict):
                return found
    return {}


@dataclass
class Calls:
    """Writes them down. Whoever keeps one waits until it is, and others' with it."""

    _waiting: list[tuple[Request, CallRecorder | None]] = field(default_factory=list)
    _writing: asyncio.Task[None] | None = None

    async def keep(self, call: Call) -> None:
        self._waiting.append((_row(call), call.recording))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        await asyncio.shield(self._writing)

    async def _write(self) -> None:
        await asyncio.sleep(GATHERED)
        calls, self._waiting, self._writing = self._waiting, [], None
        await sync_to_async(_write)([row for row, _recording in calls])
        if heard := [(row, kept) for row, kept in calls if kept is not None]:
            await sync_to_async(capture.keep)(heard)


def _row(call: Call) -> Request:
    caller = call.caller
    duration = time.monotonic() - call.began
    return Request(
        at=timezone.now() - timedelta(seconds=duration),
        key_id=caller.key if caller else None,
        person_id=call.person,
        run_id=call.run,
        old_port_id=call.old_port,
        source=call.source,
        server=call.server,
        model=_trim_for_column(call.model, 200),
        path=_trim_for_column(call.path, 200),
        status=call.status,
        cancelled=call.cancelled,
        first=call.first,
        duration=duration,
        error=_trim_for_column(call.error, 500),
        **call.counts,
    )


def _write(rows: list[Request]) -> None:
    try:
        _store(rows)
    except IntegrityError:
        # A legacy port, a key or a run was deleted while its answer passed: the others' are kept, too.
        _store([_without_what_is_gone(row) for row in rows])
    events.publish_change("requests")


def _without_what_is_gone(row: Request) -> Request:
    for name, of in _ABOUT.items():
        pk = getattr(row, name)
        if pk is not None and not of._default_manager.filter(pk=pk).exists():
            setattr(row, name, None)
    row.pk = None  # as it was before
    return row


def _store(rows: list[Request]) -> None:
    last = {
        (row.run_id, row.person_id): row.at + timedelta(seconds=row.duration)
        for row in rows
        if row.run_id is not None and row.person_id is not None
    }
    with transaction.atomic():
        Request.objects.bulk_create(rows)
        Usage.objects.add(rows)
        for (run, person), at in last.items():
            RunHealth.objects.filter(run=run).update(last_request_at=at)
            ActiveUser.objects.update_or_create(run_id=run, by_id=person, defaults={"at": at})


# Seconds after which a start that waits for others' memory is looked at again, without any news.
LOOKED_AT = 5.0
# Seconds between two looks while nothing can be heard.
UNHEARD = 1.0
# Seconds between two notes of what is being asked; nothing is idle after so few.
NOTED_EVERY = 20.0

_asking: dict[int, asyncio.Future[bool]] = {}  # by server
_noting: asyncio.Task[None] | None = None


async def route_cold_start(
    routes: Routes, model: str | None, caller: Caller, *, but: frozenset[int] = frozenset()
) -> Route:
    """The engine of that name, once it is ready. Raises Refusal."""
    asked_at = time.monotonic()
    may = caller.may_ask
    while (found := routes.find(model, but=but, may=may)) is None:
        absence = routes.absence(model, may=may)
        if absence is None and (other := routes.find(model, but=but) or routes.absence(model)):
            raise not_allowed(caller, other.server)
        if absence is None or not absence.may_start or but:
            raise routes.absent(model, may=may, sees_causes=caller.sees_causes)
        if await _start(absence, caller, routes.busy):
            await routes.look(anew=True)
            absence = routes.absence(absence.server) or absence
        left = asked_at + absence.hold - time.monotonic()
        if left <= 0 or (absence.left or 0) > left:
            raise routes.absent(model, may=may, sees_causes=caller.sees_causes)
        await _news(routes, absence, min(left, LOOKED_AT))
    return found


async def _start(absence: NoRoute, caller: Caller, busy: frozenset[int]) -> bool:
    """Whether it has been started now. Of many that wait for it, one asks for all."""
    asking = _asking.get(absence.pk)
    if asking is None:
        asking = asyncio.ensure_future(sync_to_async(_ask)(absence.pk, caller.person, busy))
        _asking[absence.pk] = asking
        asking.add_done_callback(lambda _done: _asking.pop(absence.pk, None))
    try:
        # Who hangs up takes nobody along.
        return await asyncio.shield(asking)
    except NotStartedError as error:
        brief = "" if caller.sees_causes else error.brief
        raise Refusal(
            503, "model_not_started", str(error), server=absence.server, brief=brief
        ) from error


async def ask_for_start(server: int, person: int) -> None:
    """Wake it for somebody in the playground. Raises NotStartedError."""
    busy = frozenset(run for run, count in PASSING.items() if count)
    await sync_to_async(_ask)(server, person, busy)


def _ask(server: int, person: int, busy: frozenset[int]) -> bool:
    found = Server.objects.select_related(
        "box", "profile__current", "run__health", "run__plan", "held_back_by"
    )
    by = User.objects.filter(pk=person).first()
    run = gateway.ask(found.get(pk=server), by=by, passing=busy)
    if run is not None:
        tasks.nudge(run)
    return run is not None


async def _news(routes: Routes, absence: NoRoute, seconds: float) -> None:
    """Until something has changed for it."""

    async def look() -> NoRoute | None:
        await routes.look(anew=True)
        return routes.absence(absence.server)

    try:
        await wait_async(
            look,
            lambda now: now != absence,
            groups=[events.LIVE],
            seconds=seconds,
            is_about=lambda message: message.get("kind") in ("server", "servers"),
        )
    except (RedisError, OSError):
        # Nothing is heard while Redis is away; what stands in the database is seen all the same.
        await asyncio.sleep(min(seconds, UNHEARD))
        await look()


def stay_awake() -> None:
    """Not every engine says that it is asked something: none is stopped for being idle then."""
    global _noting  # noqa: PLW0603 - one for the process, like what it passes on
    if _noting is None or _noting.done():
        _noting = asyncio.create_task(_keep_awake())


async def _keep_awake() -> None:
    while busy := [run for run, count in PASSING.items() if count]:
        await sync_to_async(gateway.note_serving)(busy)
        await asyncio.sleep(NOTED_EVERY)


# Seconds until a server is first noted as busy: nothing is written before a first token.
AFTER = 5.0

_calls = Calls()


@asynccontextmanager
async def open_call(*, person: int, run: int, server: str, model: str) -> AsyncIterator[Call]:
    """One request of a person who is logged in and may ask, to the engine of this run."""
    call = Call(path=CHAT_PATH, began=time.monotonic(), model=model, server=server)
    call.person, call.run = person, run
    PASSING[run] += 1
    try:
        stay_awake()
        yield call
    except (GeneratorExit, asyncio.CancelledError):
        call.cancelled = True
        raise
    finally:
        PASSING[run] -= 1
        await _calls.keep(call)


async def keep_awake(*, person: int, server: int, run: int, seconds: float) -> None:
    """Return once the run's engine is awake, or the time is over. Raises NotStartedError."""
    until = time.monotonic() + seconds
    while await sync_to_async(_sleeps)(run) and (left := until - time.monotonic()) > 0:
        await ask_for_start(server, person)
        await wait_async(
            lambda: sync_to_async(_sleeps)(run),
            lambda sleeps: not sleeps,
            groups=[events.LIVE],
            seconds=min(left, LOOKED_AT),
            is_about=lambda message: message.get("kind") == "server",
        )


def _sleeps(run: int) -> bool:
    found = Run.objects.filter(pk=run).first()
    return found is not None and found.sleeps


async def record_refusal(
    *, person: int, run: int | None, server: str, model: str, message: str
) -> None:
    """Write down that there was nothing to pass it on to."""
    call = Call(path=CHAT_PATH, began=time.monotonic(), model=model, server=server)
    call.person, call.run = person, run
    call.fail(503, message)
    await _calls.keep(call)


def event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def error(message: str, detail: str = "") -> bytes:
    # The blank line in front ends whatever event the engine was cut off in.
    return b"\n\n" + event("error", {"message": message, "detail": detail})

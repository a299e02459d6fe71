"""Requests that wait while the server of their model starts."""

import asyncio
import time

from asgiref.sync import sync_to_async
from redis import RedisError

from servers import events, tasks
from servers.events.long_polling import wait_async
from servers.gateway.callers import Caller, not_allowed
from servers.gateway.refusal import Refusal
from servers.gateway.routes import PASSING, NoRoute, Route, Routes
from servers.lifecycle.gateway import scale_to_zero
from servers.lifecycle.gateway.scale_to_zero import NotStartedError
from servers.models import Server, User

# Seconds after which a start that waits for others' memory is looked at again, without any news.
LOOKED_AT = 5.0
# Seconds between two looks while nothing can be heard.
UNHEARD = 1.0
# Seconds between two notes of what is being asked; nothing is idle after so few.
NOTED_EVERY = 20.0

_asking: dict[int, asyncio.Future[bool]] = {}  # by server
_noting: asyncio.Task[None] | None = None


async def route(
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


async def ask(server: int, person: int) -> None:
    """Wake it for somebody in the playground. Raises NotStartedError."""
    busy = frozenset(run for run, count in PASSING.items() if count)
    await sync_to_async(_ask)(server, person, busy)


def _ask(server: int, person: int, busy: frozenset[int]) -> bool:
    found = Server.objects.select_related("box", "profile__current", "run", "held_back_by")
    by = User.objects.filter(pk=person).first()
    run = scale_to_zero.ask(found.get(pk=server), by=by, passing=busy)
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
        await sync_to_async(scale_to_zero.note_serving)(busy)
        await asyncio.sleep(NOTED_EVERY)

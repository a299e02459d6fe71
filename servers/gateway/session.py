"""Requests of the playground, recorded like those of programs."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from asgiref.sync import sync_to_async

from servers import events
from servers.events.long_polling import wait_async
from servers.gateway import cold_start
from servers.gateway.calls import Call, Calls
from servers.gateway.routes import PASSING
from servers.host.runs.probes import CHAT_PATH
from servers.models import Run

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
        cold_start.stay_awake()
        yield call
    except (GeneratorExit, asyncio.CancelledError):
        call.cancelled = True
        raise
    finally:
        PASSING[run] -= 1
        await _calls.keep(call)


async def awake(*, person: int, server: int, run: int, seconds: float) -> None:
    """Return once the run's engine is awake, or the time is over. Raises NotStartedError."""
    until = time.monotonic() + seconds
    while await sync_to_async(_sleeps)(run) and (left := until - time.monotonic()) > 0:
        await cold_start.ask(server, person)
        await wait_async(
            lambda: sync_to_async(_sleeps)(run),
            lambda sleeps: not sleeps,
            groups=[events.LIVE],
            seconds=min(left, cold_start.LOOKED_AT),
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

"""Waits until something is so: each end is generous, as only what is broken comes to it."""

import asyncio
import inspect
import time
from collections.abc import Callable

# Seconds. A machine that does four other things beside the tests is slow and not broken.
PATIENCE = 120.0
EVERY = 0.02

# What never came: a sentence, or what says how things are by then.
type What = str | Callable[[], object]


def wait_until[T](
    condition: Callable[[], T | None],
    what: What,
    *,
    patience: float = PATIENCE,
    every: float = EVERY,
    pause: Callable[[float], object] = time.sleep,
) -> T:
    """What the condition gives as soon as that is true. `pause` lets seconds pass."""
    end = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < end, _never(what, patience)
        pause(every)
    return found


async def wait_until_async(
    condition: Callable[[], object],
    what: What,
    *,
    patience: float = PATIENCE,
    every: float = EVERY,
) -> None:
    """The same where the loop has to go on meanwhile; what the condition gives may be awaited."""
    end = time.monotonic() + patience
    while not await _given(condition):
        assert time.monotonic() < end, _never(what, patience)
        await asyncio.sleep(every)


async def _given(condition: Callable[[], object]) -> object:
    found = condition()
    return await found if inspect.isawaitable(found) else found


def _never(what: What, patience: float) -> str:
    return f"never within {patience:.0f} s: {what if isinstance(what, str) else what()}"

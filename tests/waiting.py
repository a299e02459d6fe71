"""Waits until something is so: each end is generous, as only what is broken comes to it."""

import asyncio
import inspect
import time
from collections.abc import Callable

# Seconds. A machine that does four other things beside the tests is slow and not broken.
PATIENCE = 120.0
EVERY = 0.02
# To look takes at most a fifth of a core, which belongs to what is waited for: some looks are a
# page that is drawn, or a program that starts.
REST = 4  # times as long as the look took
LONGEST_REST = 1.0  # seconds

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
    began = time.monotonic()
    end = began + patience
    while not (found := condition()):
        now = time.monotonic()
        assert now < end, _never(what, patience)
        pause(_rest(every, now - began))
        began = time.monotonic()
    return found


async def wait_until_async(
    condition: Callable[[], object],
    what: What,
    *,
    patience: float = PATIENCE,
    every: float = EVERY,
) -> None:
    """The same where the loop has to go on meanwhile; what the condition gives may be awaited."""
    began = time.monotonic()
    end = began + patience
    while not await _given(condition):
        now = time.monotonic()
        assert now < end, _never(what, patience)
        await asyncio.sleep(_rest(every, now - began))
        began = time.monotonic()


def _rest(every: float, took: float) -> float:
    return max(every, min(REST * took, LONGEST_REST))


async def _given(condition: Callable[[], object]) -> object:
    found = condition()
    return await found if inspect.isawaitable(found) else found


def _never(what: What, patience: float) -> str:
    return f"never within {patience:.0f} s: {what if isinstance(what, str) else what()}"

"""Long polling for programs."""

from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from servers import events
from servers.events.long_polling import wait_async


class Marked(Protocol):
    mark: str  # another text whenever people are shown something else


async def wait_for_change[Answer: Marked](
    look: Callable[[], Awaitable[Answer]], *, seen: str, wait: float, kinds: Collection[str]
) -> Answer:
    """What a look finds; with `wait`, for up to so many seconds one with another mark than `seen`.

    `kinds` are those of the browsers' messages after which it is looked again.
    """
    if wait <= 0:
        return await look()
    return await wait_async(
        look,
        lambda found: found.mark != seen,
        groups=[events.LIVE],
        seconds=wait,
        is_about=lambda message: message.get("kind") in kinds,
    )

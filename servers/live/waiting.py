"""Answers that are held back until there is something to say: what browsers are told ends the wait."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

from channels.layers import get_channel_layer

LONGEST = 30.0  # seconds: proxies give up on an answer after a minute or so


async def awaited[Answer](
    look: Callable[[], Awaitable[Answer]],
    is_enough: Callable[[Answer], bool],
    *,
    groups: Collection[str],
    seconds: float,
    is_about: Callable[[dict[str, Any]], bool] = lambda _message: True,
) -> Answer:
    """The first answer that is enough; after `seconds` whatever there is by then.

    It is looked at again after each message of the groups that is about it.
    """
    layer = get_channel_layer()
    if layer is None:
        raise RuntimeError("CHANNEL_LAYERS is not configured.")
    channel = await layer.new_channel()
    for group in groups:
        await layer.group_add(group, channel)
    try:
        # Only now: what happened before this was not heard.
        answer = await look()
        with suppress(TimeoutError):
            # Also for what is no number at all.
            async with asyncio.timeout(seconds if seconds < LONGEST else LONGEST):
                while not is_enough(answer):
                    if is_about(await layer.receive(channel)):
                        answer = await look()
        # A message may be lost.
        return answer if is_enough(answer) else await look()
    finally:
        for group in groups:
            await layer.group_discard(group, channel)

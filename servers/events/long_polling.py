"""Long polling: answers held back until something changes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

import redis
from asgiref.sync import async_to_sync, sync_to_async
from channels.layers import get_channel_layer

LONGEST = 30.0  # seconds: proxies give up on an answer after a minute or so
_LOST = 5.0  # seconds after which it is looked at again though nothing was heard


async def wait_async[Answer](
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


def wait[Answer](
    look: Callable[[], Answer],
    is_enough: Callable[[Answer], bool],
    *,
    groups: Collection[str],
    seconds: float,
    is_about: Callable[[dict[str, Any]], bool] = lambda _message: True,
) -> Answer:
    """The same for a thread, and for as long as it says. Without Redis it is looked at once."""

    async def listen() -> Answer:
        ends = time.monotonic() + seconds
        while True:
            left = max(0.0, ends - time.monotonic())
            try:
                answer = await wait_async(
                    sync_to_async(look),
                    is_enough,
                    groups=groups,
                    seconds=min(left, _LOST),
                    is_about=is_about,
                )
            except (redis.RedisError, OSError):
                return await sync_to_async(look)()
            if is_enough(answer) or time.monotonic() >= ends:
                return answer

    return async_to_sync(listen)()

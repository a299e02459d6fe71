"""Events: messages to open browsers and to the watchers that something has changed.

A message says what to look at again, never what it looks like: each consumer reads the
truth when it gets to it, so a slow browser skips states and never sees an old one last.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import Any, Literal, TypedDict, cast

import redis
from asgiref.sync import async_to_sync, sync_to_async
from channels.layers import get_channel_layer

from servers.state import samples, store

LIVE = "live"  # every page but the log listens here

# server: this card. servers: the list of cards. box: GPUs, memory, facts. images: facts of images,
# inspections, inventories. jobs: progress of pulls and builds. models: those on disks, and scans.
# downloads, benchmarks: their progress. alerts: alerts, acknowledgements, notifications. requests:
# requests to the gateway. ports: legacy ports. capture: whether calls are captured. links: boxes
# that ask to join, have joined or were revoked, and invitations.
type Kind = Literal[
    "server",
    "servers",
    "box",
    "images",
    "jobs",
    "models",
    "downloads",
    "benchmarks",
    "alerts",
    "requests",
    "ports",
    "capture",
    "links",
]


class ChangeEvent(TypedDict):
    type: Literal["send_change"]
    kind: Kind
    id: int | None


class LogGrewEvent(TypedDict):
    """A run's log has lines up to this number."""

    type: Literal["grew"]
    run: int
    upto: int


class PersonChangedEvent(TypedDict):
    """Role, account or password: ask again whether this person may listen."""

    type: Literal["person_changed"]


def log_group(run_id: int) -> str:
    return f"log.{run_id}"


def person_group(person_id: int) -> str:
    return f"person.{person_id}"


def publish_change(kind: Kind, pk: int | None = None) -> None:
    """`pk`: of the server or the box."""
    _send(LIVE, ChangeEvent(type="send_change", kind=kind, id=pk))


def publish_log_growth(run_id: int, upto: int) -> None:
    _send(log_group(run_id), LogGrewEvent(type="grew", run=run_id, upto=upto))


def publish_person_change(person_id: int) -> None:
    _send(person_group(person_id), PersonChangedEvent(type="person_changed"))


def publish_sample(
    box_slug: str,
    box_id: int,
    sample: dict[str, Any],
    points: Sequence[dict[str, Any]] | None = None,
) -> None:
    """Keep the newest sample, and tell the browsers. `points`: of the chart; None: its own."""
    samples.keep(box_slug, sample, points)
    publish_change("box", box_id)


class Topic(StrEnum):
    """What the watcher is to look at."""

    RUNS = "runs"
    JOBS = "jobs"
    ALERTS = "alerts"
    CHECKPOINTS = "checkpoints"
    MODELS = "models"
    IMAGES = "images"
    FACTS = "facts"  # of the box itself: its cards, its Docker, its limits


def wake_watcher(box_slug: str, *topics: Topic) -> None:
    """There is work that only the watcher does. It would look within a minute anyway."""
    message = " ".join(topics)
    store.run_despite(lambda: store.client.publish(wake_channel(box_slug), message))


KEEPER_CHANNEL = "inferdash:keeper"


def wake_keeper() -> None:
    """Links or invitations have changed. The keeper of the hub would look within seconds anyway."""
    store.run_despite(lambda: store.client.publish(KEEPER_CHANNEL, "links"))


def topics_of(message: bytes) -> set[Topic]:
    """All of them, of a message of another version of inferdash."""
    try:
        return set(map(Topic, message.decode().split())) or set(Topic)
    except ValueError:
        return set(Topic)


def wake_channel(box_slug: str) -> str:
    return f"inferdash:wake:{box_slug}"


def _send(group: str, message: ChangeEvent | LogGrewEvent | PersonChangedEvent) -> None:
    layer = get_channel_layer()
    if layer is None:
        raise RuntimeError("CHANNEL_LAYERS is not configured.")

    def send() -> None:
        told = layer.group_send(group, cast(dict[str, Any], message))
        asyncio.run_coroutine_threadsafe(told, _loop()).result()

    store.run_despite(send)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """One for all messages: the layer connects to Redis anew for each loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="messages", daemon=True).start()
    return loop


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

"""Events to open browsers, and the state in Redis: samples and more.

A message says what to look at again, never what it looks like: each consumer reads the
truth when it gets to it, so a slow browser skips states and never sees an old one last.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, Literal, TypedDict, cast

import redis
from channels.layers import get_channel_layer

from servers.judge.memory import holders
from servers.live import store

log = logging.getLogger(__name__)

LIVE = "live"  # every page but the log listens here

# One point a second for the 15-minute charts.
HISTORY = 900
_SAMPLE_TTL = 60
_TOLD_TTL = 600
_LOOK_TTL = 30


class ChangeEvent(TypedDict):
    """`server`: this card. `servers`: the list of cards. `box`: GPUs, memory, facts.

    `images`: what images say of themselves, where the asking stands, or which lie where. `jobs`:
    how far pulls and builds of images are. `stock`: which models lie
    on disks, or whether somebody looks. `alerts`: which there are, who knows of them, and what
    came of sending them. `requests`: what programs have asked through the gateway.
    `ports`: on which old ports that is open. `capture`: whether what is asked is kept.
    """

    type: Literal["send_change"]
    kind: Literal[
        "server",
        "servers",
        "box",
        "images",
        "jobs",
        "stock",
        "downloads",
        "alerts",
        "requests",
        "ports",
        "capture",
    ]
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


def server_changed(server_id: int) -> None:
    _send(LIVE, ChangeEvent(type="send_change", kind="server", id=server_id))


def servers_changed() -> None:
    _send(LIVE, ChangeEvent(type="send_change", kind="servers", id=None))


def box_changed(box_id: int) -> None:
    _send(LIVE, ChangeEvent(type="send_change", kind="box", id=box_id))


def images_changed() -> None:
    _send(LIVE, ChangeEvent(type="send_change", kind="images", id=None))


def jobs_changed() -> None:
    _send(LIVE, ChangeEvent(type="send_change", kind="jobs", id=None))


def stock_changed() -> None:
    _send(LIVE, ChangeEvent(type="send_change", kind="stock", id=None))


def downloads_changed() -> None:
    _send(LIVE, ChangeEvent(type="send_change", kind="downloads", id=None))


def alerts_changed() -> None:
    _send(LIVE, ChangeEvent(type="send_change", kind="alerts", id=None))


def requests_changed() -> None:
    _send(LIVE, ChangeEvent(type="send_change", kind="requests", id=None))


def ports_changed() -> None:
    _send(LIVE, ChangeEvent(type="send_change", kind="ports", id=None))


def capture_changed() -> None:
    _send(LIVE, ChangeEvent(type="send_change", kind="capture", id=None))


def log_grew(run_id: int, upto: int) -> None:
    _send(log_group(run_id), LogGrewEvent(type="grew", run=run_id, upto=upto))


def person_changed(person_id: int) -> None:
    _send(person_group(person_id), PersonChangedEvent(type="person_changed"))


def box_sampled(box_slug: str, box_id: int, sample: dict[str, Any]) -> None:
    """Keep the newest sample and one more point of the chart, and tell the browsers."""
    _quietly(lambda: _keep(box_slug, sample))
    box_changed(box_id)


def _keep(box_slug: str, sample: dict[str, Any]) -> None:
    with store.client.pipeline(transaction=False) as pipe:
        pipe.set(f"inferdash:sample:{box_slug}", json.dumps(sample), ex=_SAMPLE_TTL)
        # A sample that is only repeated because the collector hangs is no point of a chart.
        if sample.get("stale_s") is None:
            pipe.rpush(f"inferdash:history:{box_slug}", json.dumps(holders.point(sample)))
            pipe.ltrim(f"inferdash:history:{box_slug}", -HISTORY, -1)
        pipe.execute()


def note_look(box_slug: str) -> None:
    """Somebody looks at what others have started on the box."""
    _quietly(lambda: store.client.set(f"inferdash:looked-at:{box_slug}", "1", ex=_LOOK_TTL))


def is_looked_at(box_slug: str) -> bool:
    """False, too, when Redis is away."""
    try:
        return bool(store.client.exists(f"inferdash:looked-at:{box_slug}"))
    except (redis.RedisError, OSError) as error:
        _say_away(error)
        return False


class Topic(StrEnum):
    """What the watcher is to look at."""

    RUNS = "runs"
    ACTIONS = "actions"
    ALERTS = "alerts"
    CHECKPOINTS = "checkpoints"
    STOCK = "stock"
    IMAGES = "images"
    DOWNLOADS = "downloads"
    FACTS = "facts"  # of the box itself: its cards, its Docker, its limits


def wake_watcher(box_slug: str, *topics: Topic) -> None:
    """There is work that only the watcher does. It would look within a minute anyway."""
    _quietly(lambda: store.client.publish(wake_channel(box_slug), " ".join(topics)))


def topics_of(message: bytes) -> set[Topic]:
    """All of them, of a message of another version of inferdash."""
    try:
        return set(map(Topic, message.decode().split())) or set(Topic)
    except ValueError:
        return set(Topic)


def wake_channel(box_slug: str) -> str:
    return f"inferdash:wake:{box_slug}"


def sample(box_slug: str) -> dict[str, Any] | None:
    """The collector's newest sample; None when there was none in the last minute, or when
    Redis is away: pages then say that nothing is known of the GPUs, and stay."""
    try:
        text = cast(bytes | None, store.client.get(f"inferdash:sample:{box_slug}"))
    except (redis.RedisError, OSError) as error:
        _say_away(error)
        return None
    return json.loads(text) if text else None


def keep_recent(box_slug: str, body: bytes, *, of: str = "recent") -> None:
    """What the box's history does not hold yet (judge.history.pack): of GPUs, or "figures"."""
    key = f"inferdash:{of}:{box_slug}"
    _quietly(lambda: store.client.set(key, body, ex=_SAMPLE_TTL))


def recent(box_slug: str, *, of: str = "recent") -> bytes | None:
    try:
        return cast(bytes | None, store.client.get(f"inferdash:{of}:{box_slug}"))
    except (redis.RedisError, OSError) as error:
        _say_away(error)
        return None


def keep_told(run_id: int, body: str) -> None:
    """What a run's engine tells of its work (live.figures)."""
    _quietly(lambda: store.client.set(f"inferdash:told:{run_id}", body, ex=_TOLD_TTL))


def read_metrics(run_ids: Sequence[int]) -> list[bytes | None]:
    """Of each of these runs; [] when Redis is away."""
    try:
        found = store.client.mget([f"inferdash:told:{pk}" for pk in run_ids])
    except (redis.RedisError, OSError) as error:
        _say_away(error)
        return []
    return cast(list[bytes | None], found)


def history(box_slug: str) -> list[dict[str, Any]]:
    try:
        points = cast(list[bytes], store.client.lrange(f"inferdash:history:{box_slug}", 0, -1))
    except (redis.RedisError, OSError) as error:
        _say_away(error)
        return []
    return [json.loads(point) for point in points]


def _send(group: str, message: ChangeEvent | LogGrewEvent | PersonChangedEvent) -> None:
    layer = get_channel_layer()
    if layer is None:
        raise RuntimeError("CHANNEL_LAYERS is not configured.")

    def send() -> None:
        told = layer.group_send(group, cast(dict[str, Any], message))
        asyncio.run_coroutine_threadsafe(told, _loop()).result()

    _quietly(send)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """One for all messages: the layer connects to Redis anew for each loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="messages", daemon=True).start()
    return loop


_away = threading.Event()


def _quietly(send: Callable[[], object]) -> None:
    """Messages may be lost: what they speak of stands in the database, and a browser that
    reconnects reads it there. So a Redis that is away must not stop a container's move."""
    try:
        send()
    except (redis.RedisError, OSError) as error:
        _say_away(error)
    else:
        if _away.is_set():
            _away.clear()
            log.warning("Redis is back")


def _say_away(error: Exception) -> None:
    # Once an outage: a busy log sends twenty messages a second.
    if not _away.is_set():
        _away.set()
        log.warning("Redis is away, browsers are not told: %s", error)

"""The one connection to Redis, its outages, and work that no worker has taken."""

import logging
import threading
from collections.abc import Callable

import redis
from django.conf import settings


def connect(url: str) -> redis.Redis:
    """By from_url, which does not try again: redis.Redis() does, for seconds, while Redis is away."""
    return redis.Redis.from_url(url, socket_timeout=5)


client = connect(settings.REDIS_URL)


def shared_time() -> float:
    """Unix seconds by Redis's clock, the one that every box can ask. Raises redis.RedisError."""
    seconds, microseconds = client.time()
    return float(seconds) + float(microseconds) / 1e6


log = logging.getLogger(__name__)

_away = threading.Event()


def run_despite(send: Callable[[], object]) -> None:
    """Messages may be lost: what they speak of stands in the database, and a browser that
    reconnects reads it there. So a Redis that is away must not stop a container's move."""
    try:
        send()
    except (redis.RedisError, OSError) as error:
        note_redis_outage(error)
    else:
        if _away.is_set():
            _away.clear()
            log.warning("Redis is back")


def note_redis_outage(error: Exception) -> None:
    """Once an outage: a busy log sends twenty messages a second."""
    if not _away.is_set():
        _away.set()
        log.warning("Redis is away, browsers are not told: %s", error)


# Seconds for which a request that nobody takes is remembered.
_KEPT = 86_400


def note_sent(queue: str) -> None:
    """A request was put into this queue. Raises redis.RedisError."""
    # The oldest counts. Its age is told by what is left of its time, by Redis's own clock.
    client.set(_key(queue), "1", nx=True, ex=_KEPT)


def note_taken(queue: str) -> None:
    """The worker takes requests from this queue. Raises redis.RedisError."""
    client.delete(_key(queue))


def read_untaken_age(queue: str) -> int | None:
    """Seconds since a request was sent after which none was taken; None: there is none.

    Raises redis.RedisError.
    """
    left = client.ttl(_key(queue))
    return _KEPT - left if left >= 0 else None


def _key(queue: str) -> str:
    return f"inferdash:untaken:{queue}"

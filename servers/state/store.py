"""The one connection to Redis, its outages, work that no worker has taken, and a box's short answers."""

import json
import logging
import threading
from collections.abc import Callable, Collection
from typing import Any, cast

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


def read_despite[T](read: Callable[[], T], otherwise: T) -> T:
    """What is read, or something else while Redis is away."""
    try:
        return read()
    except (redis.RedisError, OSError) as error:
        note_redis_outage(error)
        return otherwise


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
    client.set(_untaken_key(queue), "1", nx=True, ex=_KEPT)


def note_taken(queue: str) -> None:
    """The worker takes requests from this queue. Raises redis.RedisError."""
    client.delete(_untaken_key(queue))


def read_untaken_age(queue: str) -> int | None:
    """Seconds since a request was sent after which none was taken; None: there is none.

    Raises redis.RedisError.
    """
    left = client.ttl(_untaken_key(queue))
    return _KEPT - left if left >= 0 else None


def _untaken_key(queue: str) -> str:
    return f"inferdash:untaken:{queue}"


FRESH = 60  # seconds


def give(question: str, answer: Any) -> None:
    """Raises redis.RedisError."""
    key = _answer_key(question)
    with client.pipeline() as pipe:
        pipe.delete(key)
        pipe.rpush(key, json.dumps(answer))
        pipe.expire(key, FRESH)
        pipe.execute()


def get_answer(question: str) -> Any:
    """The answer, if it was given in the last minute; None without one."""
    try:
        return _read_answer(client.lindex(_answer_key(question), 0))
    except (redis.RedisError, OSError) as error:
        log.warning("Redis is away: %s", error)
        return None


def all_kept(questions: Collection[str]) -> dict[str, Any]:
    """The answers that were given in the last minute, in one journey."""
    asked = list(questions)
    try:
        with client.pipeline(transaction=False) as pipe:
            for question in asked:
                pipe.lindex(_answer_key(question), 0)
            given = [_read_answer(text) for text in pipe.execute()]
    except (redis.RedisError, OSError) as error:
        log.warning("Redis is away: %s", error)
        return {}
    return {question: said for question, said in zip(asked, given, strict=True) if said is not None}


def wait_for_answer(question: str, *, seconds: float) -> Any:
    """The answer as soon as it is given; None when it is not in time. At most 4 seconds."""
    key = _answer_key(question)
    try:
        # From the list to itself: whoever else waits finds it, too.
        return _read_answer(client.blmove(key, key, int(seconds)))
    except (redis.RedisError, OSError) as error:
        log.warning("Redis is away: %s", error)
        return None


def _answer_key(question: str) -> str:
    return f"inferdash:answer:{question}"


def _read_answer(text: Any) -> Any:
    return None if text is None else json.loads(cast(bytes, text))

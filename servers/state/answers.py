"""Short questions of a page that only a box can answer, and the answers while they are fresh."""

import json
import logging
from collections.abc import Collection
from typing import Any, cast

import redis

from servers.state import store

log = logging.getLogger(__name__)

FRESH = 60  # seconds


def give(question: str, answer: Any) -> None:
    """Raises redis.RedisError."""
    key = _key(question)
    with store.client.pipeline() as pipe:
        pipe.delete(key)
        pipe.rpush(key, json.dumps(answer))
        pipe.expire(key, FRESH)
        pipe.execute()


def get_answer(question: str) -> Any:
    """The answer, if it was given in the last minute; None without one."""
    try:
        return _read(store.client.lindex(_key(question), 0))
    except (redis.RedisError, OSError) as error:
        log.warning("Redis is away: %s", error)
        return None


def all_kept(questions: Collection[str]) -> dict[str, Any]:
    """The answers that were given in the last minute, in one journey."""
    asked = list(questions)
    try:
        with store.client.pipeline(transaction=False) as pipe:
            for question in asked:
                pipe.lindex(_key(question), 0)
            given = [_read(text) for text in pipe.execute()]
    except (redis.RedisError, OSError) as error:
        log.warning("Redis is away: %s", error)
        return {}
    return {question: said for question, said in zip(asked, given, strict=True) if said is not None}


def wait_for_answer(question: str, *, seconds: float) -> Any:
    """The answer as soon as it is given; None when it is not in time. At most 4 seconds."""
    key = _key(question)
    try:
        # From the list to itself: whoever else waits finds it, too.
        return _read(store.client.blmove(key, key, int(seconds)))
    except (redis.RedisError, OSError) as error:
        log.warning("Redis is away: %s", error)
        return None


def _key(question: str) -> str:
    return f"inferdash:answer:{question}"


def _read(text: Any) -> Any:
    return None if text is None else json.loads(cast(bytes, text))

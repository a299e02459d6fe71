"""Outages of Redis: logged once, and no reason to stop anything else."""

import logging
import threading
from collections.abc import Callable

import redis

log = logging.getLogger(__name__)

_away = threading.Event()


def run_despite(send: Callable[[], object]) -> None:
    """Messages may be lost: what they speak of stands in the database, and a browser that
    reconnects reads it there. So a Redis that is away must not stop a container's move."""
    try:
        send()
    except (redis.RedisError, OSError) as error:
        note(error)
    else:
        if _away.is_set():
            _away.clear()
            log.warning("Redis is back")


def note(error: Exception) -> None:
    """Once an outage: a busy log sends twenty messages a second."""
    if not _away.is_set():
        _away.set()
        log.warning("Redis is away, browsers are not told: %s", error)

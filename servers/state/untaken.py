"""Requests to a box's worker that it has not begun: they tell of one that hangs."""

from servers.state import store

# Seconds for which a request that nobody takes is remembered.
_KEPT = 86_400


def note_sent(queue: str) -> None:
    """A request was put into this queue. Raises redis.RedisError."""
    # The oldest counts. Its age is told by what is left of its time, by Redis's own clock.
    store.client.set(_key(queue), "1", nx=True, ex=_KEPT)


def note_taken(queue: str) -> None:
    """The worker takes requests from this queue. Raises redis.RedisError."""
    store.client.delete(_key(queue))


def age(queue: str) -> int | None:
    """Seconds since a request was sent after which none was taken; None: there is none.

    Raises redis.RedisError.
    """
    left = store.client.ttl(_key(queue))
    return _KEPT - left if left >= 0 else None


def _key(queue: str) -> str:
    return f"inferdash:untaken:{queue}"

"""The one connection by which pages and boxes reach what is kept in Redis."""

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

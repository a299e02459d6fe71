"""The one connection by which pages and boxes reach what is kept in Redis."""

import redis
from django.conf import settings

client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5)


def shared_time() -> float:
    """Unix seconds by Redis's clock, the one that every box can ask. Raises redis.RedisError."""
    seconds, microseconds = client.time()
    return float(seconds) + float(microseconds) / 1e6

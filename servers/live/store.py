"""The one connection by which pages and boxes reach what is kept in Redis."""

import redis
from django.conf import settings

client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5)

"""Sessions in the database, and in Redis while the database's disk is full: people still get in."""

import logging
from typing import Any

import redis
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.db.utils import DatabaseError

from servers.state import samples, store

log = logging.getLogger(__name__)

_KEPT = "inferdash:session:"


class SessionStore(db.SessionStore):
    """One that was begun while the disk was full stays in Redis until it ends: a restart of
    Redis ends it, too."""

    def load(self) -> dict[str, Any]:
        key = self.session_key
        found: dict[str, Any] = super().load()
        if key and self.session_key is None and (kept := _get_value(key)):
            self._session_key = key
            found = self.decode(kept)
        return found

    def save(self, must_create: bool = False) -> None:
        try:
            super().save(must_create)
        except UpdateError as error:
            key = self.session_key or ""
            if not samples.describe_full_disk(error) and not _get_value(key):
                raise
            self._keep()
        except DatabaseError as error:
            if not samples.describe_full_disk(error):
                raise
            self._keep()

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is None:
            return
        is_in_database = self.exists(key)
        try:
            _forget(key)
        except (redis.RedisError, OSError) as error:
            if not is_in_database:
                raise  # who logs out must not stay logged in
            log.warning("Redis does not say whether it keeps a session that ends: %s", error)
        if is_in_database:
            super().delete(key)

    def _keep(self) -> None:
        data = self.encode(dict(self.items()))
        store.client.set(f"{_KEPT}{self.session_key}", data, ex=self.get_expiry_age())


def _get_value(key: str) -> str:
    """ "" without one, also when Redis is away."""
    try:
        found = store.client.get(f"{_KEPT}{key}")
    except (redis.RedisError, OSError) as error:
        log.warning("Redis does not say which sessions it keeps: %s", error)
        return ""
    return bytes(found).decode() if found else ""  # type: ignore[arg-type]


def _forget(key: str) -> None:
    """Raises redis.RedisError and OSError."""
    store.client.delete(f"{_KEPT}{key}")

"""Addresses and ports of this box that the hub may reach: those of its engines, by the database."""

import asyncio
import logging
import time

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections

from servers.models import Run

log = logging.getLogger(__name__)

# Seconds for which what was seen counts without another look.
REMEMBERED = 2.0
# Seconds for which it counts while the database is away: engines go on, and so does the hub.
KEPT = 60.0
# Seconds between two looks for what is not there: whoever asks for anything makes no load of it.
LOOK_AGAIN = 0.2

type Place = tuple[str, int]


def list_places() -> frozenset[Place]:
    """Of this box's runs, monitored external engines among them."""
    runs = Run.objects.active().filter(server__box__slug=settings.BOX)
    found = runs.exclude(address=None).exclude(port=None).values_list("address", "port")
    return frozenset((str(address), int(port or 0)) for address, port in found)


class EnginePlaces:
    """Those of this box, remembered for a moment."""

    def __init__(self) -> None:
        self._places: frozenset[Place] = frozenset()
        self._seen_at = float("-inf")
        self._tried_at = float("-inf")
        self._looking = asyncio.Lock()

    async def allows(self, address: str, port: int) -> bool:
        """A fresh look decides about what is not there: it may have begun a moment ago."""
        for most in (REMEMBERED, LOOK_AGAIN):
            await self._look(most)
            if (address, port) in self._places and time.monotonic() - self._seen_at < KEPT:
                return True
        return False

    async def _look(self, most: float) -> None:
        async with self._looking:
            if time.monotonic() - self._tried_at < most:
                return
            try:
                self._places = await sync_to_async(_look)()
            except (OperationalError, InterfaceError) as error:
                log.warning("The database is away; what was known of engines counts: %s", error)
            else:
                self._seen_at = time.monotonic()
            self._tried_at = time.monotonic()


def _look() -> frozenset[Place]:
    close_old_connections()
    try:
        return list_places()
    finally:
        close_old_connections()

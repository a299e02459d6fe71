"""Due notifications, each channel in a thread of its own."""

import logging
import threading
import time

from django.db import close_old_connections
from django.db.utils import InterfaceError, OperationalError

from servers.lifecycle.alerts import channels
from servers.models import Box, Notification, NotificationChannel
from servers.models.alerts.channel import ChannelKind

log = logging.getLogger(__name__)

# Messages to one channel in a row; what is left waits for the next round.
AT_ONCE = 20
MOST_THREADS = 8
PING_EVERY = 60.0


class NotificationSender:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._threads: dict[int, threading.Thread] = {}
        self._pinged: dict[int, float] = {}

    def step(self) -> None:
        """Start what is due. Short; for every round."""
        self._threads = {pk: each for pk, each in self._threads.items() if each.is_alive()}
        waiting: dict[int, list[Notification]] = {}
        for notification in channels.due(self.box):
            waiting.setdefault(notification.channel_id, []).append(notification)
        for pk, notifications in waiting.items():
            self._start(pk, notifications[:AT_ONCE])
        self._give_signs_of_life()

    def finish(self, seconds: float) -> None:
        """Wait for what is on its way, so that it is not sent again after a restart."""
        deadline = time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start(self, pk: int, notifications: list[Notification]) -> None:
        if pk not in self._threads and len(self._threads) < MOST_THREADS:
            thread = threading.Thread(target=self._send, args=[notifications], daemon=True)
            self._threads[pk] = thread
            thread.start()

    def _send(self, notifications: list[Notification]) -> None:
        try:
            for notification in notifications:
                # Whoever does not take this one now would not take the next.
                if not channels.send(notification, self.box):
                    return
        except (OperationalError, InterfaceError) as error:
            log.warning("The database is away: %s", error)
        finally:
            close_old_connections()

    def _give_signs_of_life(self) -> None:
        """By a row that another loop writes: a watcher that hangs gives none."""
        box = Box.objects.get(pk=self.box.pk)
        if box.is_silent:
            return
        now = time.monotonic()
        pings = NotificationChannel.objects.filter(kind=ChannelKind.PING, is_enabled=True, box=box)
        for channel in pings.select_related("box"):
            if now - self._pinged.get(channel.pk, float("-inf")) < PING_EVERY:
                continue
            if channel.pk not in self._threads and len(self._threads) < MOST_THREADS:
                self._pinged[channel.pk] = now
                thread = threading.Thread(target=self._ping, args=[channel], daemon=True)
                self._threads[channel.pk] = thread
                thread.start()

    def _ping(self, channel: NotificationChannel) -> None:
        try:
            channels.ping(channel)
        except (OperationalError, InterfaceError) as error:
            log.warning("The database is away: %s", error)
        finally:
            close_old_connections()

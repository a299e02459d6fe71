"""The rate limit over all streams of a download."""

import threading
import time
from collections.abc import Callable

_LOOK_EVERY = 0.5  # seconds: whoever waits hears that nobody wants it any more
# So much may come at once after a pause, in seconds of the allowed pace.
_BURST = 0.25


class Pace:
    def __init__(self, limit: int = 0, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`limit` is bytes a second; 0: none."""
        self._limit = limit
        self._clock = clock
        self._paid_until = clock()
        self._lock = threading.Lock()
        self._changes = 0

    def set(self, limit: int) -> None:
        with self._lock:
            self._limit = limit
            self._paid_until = self._clock()
            self._changes += 1

    def keep(self, size: int, stop: threading.Event) -> None:
        """Wait as long as `size` bytes that have come cost; another pace ends the wait."""
        until, changes = self._clock() + self.take(size), self._changes
        while changes == self._changes and (left := until - self._clock()) > 0:
            if stop.wait(min(left, _LOOK_EVERY)):
                return

    def take(self, size: int) -> float:
        """Seconds to wait after `size` bytes have come."""
        with self._lock:
            if not self._limit:
                return 0.0
            now = self._clock()
            self._paid_until = max(self._paid_until, now - _BURST) + size / self._limit
            return max(0.0, self._paid_until - now)

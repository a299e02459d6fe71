"""Keeps what the GPUs did: each second in memory, each minute in the database."""

import logging
import threading
import time
from typing import Any

from django.db import transaction

from servers.judge import history, holders
from servers.judge.history import SPANS, Series
from servers.models import Box, HistoryChunk, Run

log = logging.getLogger(__name__)

MINUTE = SPANS[1]
# Seconds: after a failure, until it is tried again; and between two looks for what is too old.
RETRY = 15.0
TIDY_EVERY = 600.0
NAMES_EVERY = 5.0
# Minutes that wait for a database which is away; older ones are given up.
MOST_WAITING = 120
# Nothing is removed before the clock has gone steadily for so long: one that is a year ahead for
# a minute after the boot must not cost a month of points.
STEADY = 3600.0
_JUMP = 60.0  # by so much against the monotonic clock it has jumped


class History:
    """For one box. see() and write() may be called from different threads."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self._waiting: dict[int, Series] = {}  # by minute
        self._lock = threading.Lock()
        self._failed_at = self._tidied_at = float("-inf")
        self._names, self._named_at = self._servers(), time.monotonic()
        self._clock = time.time() - time.monotonic()
        self._steady_since = time.monotonic()

    def see(self, sample: dict[str, Any]) -> None:
        """Take up a judged sample; whole minutes go to the database."""
        if sample.get("stale_s") is not None:
            return  # what is only repeated was not seen
        now, t = time.monotonic(), int(sample["t"])
        points = {gpu.key: history.point(gpu) for gpu in holders.gpus(sample, self._names)}
        minute = history.slot(t, MINUTE)
        with self._lock:
            for gpu, point in points.items():
                if point:
                    self._waiting.setdefault(minute, {}).setdefault(gpu, {})[t] = point
            for old in sorted(self._waiting)[:-MOST_WAITING]:
                log.warning("Given up: the GPUs' minute of %d, which was never stored", old)
                del self._waiting[old]
            # Also when the clock was set back: then the minute that was begun is over, too.
            is_over = any(each != minute for each in self._waiting)
        if now - self._named_at >= NAMES_EVERY:
            self._named_at = now
            self._names = self._servers()
        if is_over and now - self._failed_at >= RETRY:
            self.write(but=minute)
        if now - self._tidied_at >= TIDY_EVERY:
            self._tidied_at = now
            self._tidy()

    def write(self, *, but: int | None = None) -> None:
        """Bring to the database what waits, but for the minute that is still going on.

        What the database does not take waits on.
        """
        with self._lock:
            for minute in sorted(self._waiting):
                if minute == but:
                    continue
                self._failed_at = time.monotonic()
                self._store(minute, self._waiting[minute])
                self._failed_at = float("-inf")
                del self._waiting[minute]

    @transaction.atomic
    def _store(self, minute: int, new: Series) -> None:
        # A minute may have begun before the watcher was started anew: all of it counts.
        seconds = self._merge(1, minute, new)
        self._merge(10, minute, _rolled(seconds, 10))
        minutes = self._merge(60, minute, _rolled(seconds, 60))
        ten = history.slot(minute, 600)
        lately = {
            gpu: {t: point for t, point in times.items() if ten <= t < ten + 600}
            for gpu, times in minutes.items()
        }
        self._merge(600, minute, _rolled(lately, 600))

    def _merge(self, step: int, minute: int, new: Series) -> Series:
        """Put points into the chunk that this minute lies in, and return all that are in it."""
        start = history.slot(minute, SPANS[step])
        chunk = HistoryChunk.objects.filter(box=self.box, step=step, start=start).first()
        made = chunk or HistoryChunk(box=self.box, step=step, start=start)
        series = history.merged(chunk.series, new) if chunk else new
        made.body = history.pack(series)
        made.save()
        return series

    def _servers(self) -> dict[str, str]:
        """Slugs by container."""
        active = Run.objects.active().filter(server__box=self.box).exclude(container_id="")
        return dict(active.values_list("container_id", "server__slug"))

    def _tidy(self) -> None:
        """Remove points that are older than the settings say, if the clock can be believed."""
        clock = time.time() - time.monotonic()
        if abs(clock - self._clock) > _JUMP:
            log.warning("The clock has jumped by %.0f s", clock - self._clock)
            self._steady_since = time.monotonic()
        self._clock = clock
        if time.monotonic() - self._steady_since < STEADY:
            return
        for step, seconds in HistoryChunk.kept().items():
            old = int(time.time() - seconds) - max(2 * SPANS[step], 900)
            HistoryChunk.objects.filter(box=self.box, step=step, start__lt=old).delete()


def _rolled(series: Series, step: int) -> Series:
    return {gpu: history.rolled_up(times, step) for gpu, times in series.items()}

"""Roll-ups of history points: fresh in memory, each minute in the database."""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from django.db import transaction

from servers.judge.memory import history
from servers.judge.memory.history import SPANS, Point, Series
from servers.models import Box
from servers.models.memory import Chunk

log = logging.getLogger(__name__)

MINUTE = SPANS[1]
# Seconds: after a failure, until it is tried again; and between two looks for what is too old.
RETRY = 15.0
TIDY_EVERY = 600.0
# So often pages are shown the minute that is not stored yet.
RECENT_EVERY = 5.0
# Minutes that wait for a database which is away; older ones are given up.
MOST_WAITING = 120
# Nothing is removed before the clock has gone steadily for so long: one that is a year ahead for
# a minute after the boot must not cost a month of points.
STEADY = 3600.0
_JUMP = 60.0  # by so much against the monotonic clock it has jumped


class Rollups:
    """Of one box and one table. take_up() and write() may be called from different threads.

    `finest`: seconds that the points stand for which are taken up. `show` is handed, packed, what
    is not stored yet.
    """

    def __init__(
        self, box: Box, table: type[Chunk], *, finest: int, show: Callable[[bytes], None]
    ) -> None:
        self.box = box
        self._table = table
        self._finest = finest
        self._show = show
        self._waiting: dict[int, Series] = {}  # by minute
        self._lock = threading.Lock()
        self._failed_at = self._tidied_at = self._shown_at = float("-inf")
        self._clock = time.time() - time.monotonic()
        self._steady_since = time.monotonic()

    def take_up(self, t: int, points: Mapping[str, Point]) -> None:
        """Points of one moment, by what they are of; whole minutes go to the database."""
        now, minute = time.monotonic(), history.slot(t, MINUTE)
        with self._lock:
            for key, point in points.items():
                if point:
                    self._waiting.setdefault(minute, {}).setdefault(key, {})[t] = point
            for old in sorted(self._waiting)[:-MOST_WAITING]:
                log.warning("Given up: the minute of %d, which was never stored", old)
                del self._waiting[old]
            # Also when the clock was set back: then the minute that was begun is over, too.
            is_over = any(each != minute for each in self._waiting)
        if is_over and now - self._failed_at >= RETRY:
            self.write(but=minute)
        if now - self._tidied_at >= TIDY_EVERY:
            self._tidied_at = now
            self._tidy()
        if now - self._shown_at >= RECENT_EVERY:
            self._shown_at = now
            self._show(history.pack(self._recent(minute)))

    def _recent(self, minute: int) -> Series:
        """This minute and the one before, which may be on its way to the database."""
        with self._lock:
            before = self._waiting.get(minute - MINUTE, {})
            return history.merge(before, self._waiting.get(minute, {}))

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
        fine = _cut_series(self._merge(self._finest, minute, new), minute, MINUTE)
        if self._finest < 10:
            self._merge(10, minute, _roll_up(fine, 10))
        minutes = self._merge(60, minute, _roll_up(fine, 60))
        lately = _cut_series(minutes, history.slot(minute, 600), 600)
        self._merge(600, minute, _roll_up(lately, 600))

    def _merge(self, step: int, minute: int, new: Series) -> Series:
        """Put points into the chunk that this minute lies in, and return all that are in it."""
        start = history.slot(minute, SPANS[step])
        rows = self._table._default_manager
        chunk = rows.filter(box=self.box, step=step, start=start).first()
        made = chunk or self._table(box=self.box, step=step, start=start)
        series = history.merge(history.unpack(bytes(chunk.body)), new) if chunk else new
        made.body = history.pack(series)
        made.save()
        return series

    def _tidy(self) -> None:
        """Remove points that are older than the settings say, if the clock can be believed."""
        clock = time.time() - time.monotonic()
        if abs(clock - self._clock) > _JUMP:
            log.warning("The clock has jumped by %.0f s", clock - self._clock)
            self._steady_since = time.monotonic()
        self._clock = clock
        if time.monotonic() - self._steady_since < STEADY:
            return
        for step, seconds in self._table.get_retention().items():
            old = int(time.time() - seconds) - max(2 * SPANS[step], 900)
            self._table._default_manager.filter(box=self.box, step=step, start__lt=old).delete()


def _cut_series(series: Series, since: int, span: int) -> Series:
    return {
        key: {t: point for t, point in times.items() if since <= t < since + span}
        for key, times in series.items()
    }


def _roll_up(series: Series, step: int) -> Series:
    return {key: history.rolled_up(times, step) for key, times in series.items()}

"""The writer of log lines: each once, in order, through failures of the database.

What is cut out leaves one chunk with a note that stands for all of its lines, so that every other
line keeps its number.
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections, connection, transaction
from django.db.models import Max, QuerySet, Sum
from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError
from servers.host.logs.log_stream import LogStream, LogStreamError, PrintedError
from servers.launch.redaction import mask_tokens
from servers.models import Box, LogChunk, Run, RunLog
from servers.models.logs import LogMovedError, StoredLine
from servers.models.runs.run import ENDED
from servers.state import data_disk
from servers.watcher.logs.records import note, stamp

log = logging.getLogger(__name__)

RETRY_FIRST, RETRY_MOST = 0.25, 5.0

# Set with every batch that is stored, of whichever run.
grew = threading.Event()

# One transaction at a time: SQLite lets those who wait for another sleep, unfairly and for long.
_appending = threading.Lock()


class LogWriter(threading.Thread, ABC):
    """A thread that reads the log of one run. Who derives from it says how (_read_to_end)."""

    def __init__(self, run_id: int) -> None:
        super().__init__(name=f"log-{run_id}", daemon=True)
        self.run_id = run_id
        self.is_busy = False
        self._stopping = threading.Event()
        self._upto = 0
        self._trouble = ""
        self._is_set_back = False  # the database is an older one by now
        self._is_out_of_step = False
        # Columns of the run that are kept with the lines: how far they were read.
        self._beside: dict[str, Any] = {}

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            self.follow()
        finally:
            connection.close()

    def follow(self) -> None:
        """Store the log until it is whole or stop() is called."""
        wait = RETRY_FIRST
        while not self._stopping.is_set():
            before = self._upto
            if self._attempt(self._read_to_end):
                return
            got_on = self._upto > before or not self._trouble
            wait = RETRY_FIRST if got_on else min(wait * 2, RETRY_MOST)
            # A log that runs ahead of its reader is not waited with.
            is_late = self._is_out_of_step and self._upto > before
            self._stopping.wait(0 if is_late else wait)

    def _attempt(self, work: Callable[[], bool]) -> bool:
        """Do it, or say once what is in the way and return False."""
        try:
            is_done = work()
        except (Run.DoesNotExist, RunLog.DoesNotExist):
            return True  # deleted together with its log
        except (ContainerError, LogStreamError) as error:
            self._tell_once(f"Docker does not hand out the log: {error}")
        except PrintedError as error:
            self._tell_once(str(error))
        except LogMovedError:
            self._tell_once("another watcher stores the same log; is inferdash running twice?")
        except (DatabaseError, InterfaceError) as error:
            self._tell_once(data_disk.describe_full_disk(error) or f"the database is away: {error}")
            close_old_connections()
        else:
            self._trouble = ""
            return is_done
        return False

    def _tell_once(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("Log of run %s: %s Trying again.", self.run_id, trouble)

    @abstractmethod
    def _read_to_end(self) -> bool:
        """Store what there is until nothing more can be read; whether the log is whole."""

    def _store(self, batch: list[bytes]) -> None:
        """Keep trying until the batch is stored; only a stop gives up on it."""
        wait = RETRY_FIRST
        while batch and not self._attempt(lambda: self._append(batch)):
            if self._stopping.wait(wait):
                return
            wait = min(wait * 2, RETRY_MOST)

    def _append(self, batch: list[bytes]) -> bool:
        try:
            with _appending:
                self._upto = LogChunk.objects.append(self.run_id, self._upto, batch, **self._beside)
        except LogMovedError:
            # The connection may have been lost after the commit of an earlier attempt.
            upto = self._upto + len(batch)
            if RunLog.objects.values_list("lines", flat=True).get(run=self.run_id) < self._upto:
                # What it has lost is read from Docker again, and this batch with it.
                self._is_set_back = True
                return True
            if LogChunk.objects.lines(self.run_id, upto - 1, 2) != [_line(upto, batch[-1])]:
                raise
            self._upto = upto
        events.publish_log_growth(self.run_id, self._upto)
        grew.set()
        return True


def _line(number: int, record: bytes) -> StoredLine:
    at, stream, text = record.decode().split(" ", 2)
    return StoredLine(number, at, stream, text)


BATCH_LINES = 8192
BATCH_BYTES = 4 * 1024 * 1024
# So many lines wait for the database before Docker has to.
READ_AHEAD = 4 * BATCH_LINES
READ_AHEAD_BYTES = 4 * BATCH_BYTES


class LogReadAhead(threading.Thread):
    """Reads records ahead of the database, so that neither waits for the other's pauses."""

    def __init__(self, source: LogStream, found: Iterator[bytes]) -> None:
        super().__init__(name="log-stream", daemon=True)
        self._source = source
        self._found = found
        self._changed = threading.Condition()
        self._read: list[bytes] = []
        self._size = 0  # of these, in bytes
        self._is_closed = False
        self.has_more = False  # than the last batch could hold
        self.has_ended = False
        self.error: LogStreamError | None = None
        self.start()

    def run(self) -> None:
        try:
            for record in self._found:
                with self._changed:
                    self._read.append(record)
                    self._size += len(record)
                    if len(self._read) == 1:
                        self._changed.notify_all()
                    while self._is_full and not self._is_closed:
                        self._changed.wait()
                    if self._is_closed:
                        return
        except LogStreamError as error:
            self.error = error
        finally:
            with self._changed:
                self.has_ended = True
                self._changed.notify_all()

    def take(self) -> list[bytes]:
        """What was read since the last call; waits for it, and [] means the end."""
        with self._changed:
            while not self._read and not self.has_ended and not self._is_closed:
                self._changed.wait()
            count = BATCH_LINES
            if self._size > BATCH_BYTES:
                sizes = accumulate(map(len, self._read[:BATCH_LINES]))
                count = max(1, sum(1 for size in sizes if size <= BATCH_BYTES))
            batch, self._read = self._read[:count], self._read[count:]
            self._size -= sum(map(len, batch))
            self.has_more = bool(self._read)
            self._changed.notify_all()
        return mask_tokens(batch)

    @property
    def _is_full(self) -> bool:
        return len(self._read) >= READ_AHEAD or self._size >= READ_AHEAD_BYTES

    def close(self) -> None:
        self._source.close()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


# Cut only when there is so much to cut: every cut reads what it removes.
_SLACK = 4 * 2**20
_MIB, _GIB = 2**20, 2**30
# No note is larger: what is no larger is one, or not worth removing.
_NOTE = 500


def tidy_logs(box: Box) -> None:
    """Bring all logs of this box's runs within the bounds of the settings."""
    runs = Run.objects.filter(server__box=box)
    if settings.LOG_TAIL:
        most = settings.LOG_HEAD + settings.LOG_TAIL + _SLACK
        for run in runs.filter(log__size__gt=most):
            shorten_logs(run.pk)
    _drop_old(box)


def shorten_logs(run_id: int) -> None:
    """Cut the middle out of a log, so that its beginning and its end stay."""
    head, tail = settings.LOG_HEAD, settings.LOG_TAIL
    why = (
        f"of a log, inferdash keeps the first {head // _MIB} MiB and the last {tail // _MIB} MiB "
        "(INFERDASH_LOG_HEAD_MIB, INFERDASH_LOG_TAIL_MIB)"
    )
    _cut(run_id, head, tail, why)


def _drop_old(box: Box) -> None:
    """The logs of ended runs that are too old, and the oldest where all are too large."""
    newest = Run.objects.filter(server__box=box).order_by().values("server")
    stay = newest.annotate(last=Max("pk")).values("last")
    candidates = (
        Run.objects.filter(
            server__box=box, state__in=ENDED, log__is_complete=True, log__size__gt=_NOTE
        )
        .exclude(pk__in=stay)
        .select_related("log")
        .order_by("ended_at")
    )
    if settings.LOG_DAYS:
        before = timezone.now() - timedelta(days=settings.LOG_DAYS)
        for run in candidates.filter(ended_at__lt=before):
            _drop(run.pk, f"it was older than {settings.LOG_DAYS} days (INFERDASH_LOG_DAYS)")
    if settings.LOG_TOTAL:
        size = RunLog.objects.aggregate(size=Sum("size"))["size"] or 0
        for run in candidates.iterator():
            if size <= settings.LOG_TOTAL:
                return
            size -= run.log.size
            most = f"{settings.LOG_TOTAL // _GIB} GiB (INFERDASH_LOG_TOTAL_GIB)"
            _drop(run.pk, f"all logs together were larger than {most}")


def _drop(run_id: int, why: str) -> None:
    _cut(run_id, 0, 0, why)


@transaction.atomic
def _cut(run_id: int, head: int, tail: int, why: str) -> None:
    """Remove the chunks between the first `head` and the last `tail` bytes; 0 and 0: all."""
    row = RunLog.objects.select_for_update().get(run=run_id)
    chunks = LogChunk.objects.filter(run_id=run_id)
    sizes = list(chunks.order_by("first").values_list("first", "count", "size"))
    between = _find_middle(sizes, head, tail)
    if not between:
        return
    first, last = between[0][0], between[-1][0] + between[-1][1] - 1
    removed = chunks.filter(first__gte=first, first__lte=last)
    earliest, latest = _stamps(row.gap, removed)
    words = (
        f"… lines {first:,} to {last:,} were removed on {datetime.now(UTC):%Y-%m-%d}: {why}."
        if head or tail
        else f"… the log of this run ({last - first + 1:,} lines) was removed on "
        f"{datetime.now(UTC):%Y-%m-%d}: {why}."
    )
    removed.delete()
    kept = LogChunk.from_records(run_id, first, [note(latest, words)], count=last - first + 1)
    kept.save()
    row.gap = {"first": first, "last": last, "from": earliest, "to": latest}
    row.size += kept.size - sum(size for _first, _count, size in between)
    row.save(update_fields=["gap", "size"])
    log.info("Log of run %s: %s", run_id, words)
    transaction.on_commit(lambda: events.publish_log_growth(run_id, row.lines))


def _find_middle(
    sizes: list[tuple[int, int, int]], head: int, tail: int
) -> list[tuple[int, int, int]]:
    start, end = 0, len(sizes)
    while start < end and head > 0:
        head -= sizes[start][2]
        start += 1
    while end > start and tail > 0:
        end -= 1
        tail -= sizes[end][2]
    return sizes[start:end]


def _stamps(gap: dict[str, Any] | None, removed: QuerySet[LogChunk]) -> tuple[str, str]:
    """The earliest and the latest moment of what is removed: two streams are not quite in order."""
    found = [gap["from"], gap["to"]] if gap else []
    for chunk in removed.iterator(chunk_size=16):
        stamps = [stamp(record) for record in chunk.plain().split(b"\n")]
        found += [min(stamps), max(stamps)]
    return min(found), max(found)

"""Log lines: records of Docker's stream, whole, redacted, none twice, and who writes them.

Each is written once, in order, through failures of the database.

What is cut out leaves one chunk with a note that stands for all of its lines, so that every other
line keeps its number.
"""

import logging
import re
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import accumulate
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections, connection, transaction
from django.db.models import Max, QuerySet, Sum
from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError
from servers.host.logs import LogStream, LogStreamError, PrintedError
from servers.launch.redaction import mask_tokens
from servers.models import Box, LogChunk, Run, RunLog
from servers.models.logs import NOTE, LogMovedError, StoredLine
from servers.models.people.key import MASK, shapes
from servers.models.runs.run import ENDED
from servers.state import samples

log = logging.getLogger(__name__)

type Frame = tuple[str, str, bytes]  # RFC 3339 timestamp, "o" or "e", a line

# A longer line is stored as several: a browser has to lay each of them out.
LONGEST = 256 * 1024

# stdout and stderr are stamped by two threads of Docker's, so that a line can stand after
# one that is younger, though never by much.
SLACK = timedelta(seconds=2)

# A reader that is so far behind and meets such a pause may have been led past a whole file.
BEHIND = timedelta(seconds=2)
JUMP = timedelta(milliseconds=100)
FRESH = timedelta(seconds=3)
# Repeated lines are known among so many, twice; older ones are looked up in the database.
REMEMBERED = 20_000
KEY = 200  # bytes


def secrets_pattern(values: Iterable[str]) -> re.Pattern[bytes] | None:
    """Matches what mask() hides, in bytes; None when there is nothing to mask."""
    wanted = [re.escape(shape.encode()) for shape in shapes(values)]
    return re.compile(b"|".join(wanted)) if wanted else None


def records(frames: Iterable[Frame], secrets: re.Pattern[bytes] | None) -> Iterator[bytes]:
    """`<timestamp> <stream> <text>` for every line, valid UTF-8 and masked."""
    for at, stream, text in frames:
        if secrets is not None:
            text = secrets.sub(MASK.encode(), text)
        if len(text) > LONGEST or b"\n" in text:
            for index, part in enumerate(_parts(text)):
                yield _record(nanoseconds_later(at, index), stream, part)
        else:
            yield _record(at, stream, text)


def _parts(text: bytes) -> Iterator[bytes]:
    for line in text.split(b"\n"):
        for start in range(0, len(line) or 1, LONGEST):
            yield line[start : start + LONGEST]


def nanoseconds_later(at: str, count: int) -> str:
    """Tells the parts of one line apart, in the same way each time it is read."""
    return f"{at[:20]}{min(int(at[20:29]) + count, 999_999_999):09d}{at[29:]}"


def _record(at: str, stream: str, text: bytes) -> bytes:
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode(errors="replace").encode()
    return f"{at} {stream} ".encode() + text


def note(at: str, text: str) -> bytes:
    """A record in inferdash's own words."""
    return f"{at} {NOTE} {text}".encode()


def stamp(record: bytes) -> str:
    return record.split(b" ", 1)[0].decode()


def slice_records(found: Iterable[bytes], begin: str, end: str) -> Iterator[bytes]:
    """The records from one stamp on, and before the other; "" is no bound."""
    for record in found:
        at = stamp(record)
        if at >= begin and not (end and at >= end):
            yield record


def earlier(at: str, by: timedelta = SLACK) -> str:
    """The timestamp moved back; what is finer than a microsecond stays as it is."""
    moved = datetime.fromisoformat(at[:26]) - by
    return moved.isoformat(timespec="microseconds") + at[26:]


def later(at: str, by: timedelta = SLACK) -> str:
    return earlier(at, -by)


class RecordOrder:
    """Lets each record through once, and notices when Docker's stream is out of step.

    Docker stamps a line to the nanosecond as it reads it, so that timestamp, stream and
    text name it. Docker 20.10 repeats some lines after it has rotated the file, and leaves
    some out for a reader that is behind (both measured).
    """

    def __init__(self, stored: Iterable[bytes], opened: datetime) -> None:
        self._opened = opened
        self._recent = set(map(_key, stored))
        self._before: set[bytes] = set()
        self._floor = self._next_floor = min(self._recent, default=b"")
        # What lies between this and the stream's first line was looked at before it began.
        self._start = self._newest = max(self._recent, default=b"")

    def new(self, batch: list[bytes], now: datetime) -> tuple[list[bytes], bool]:
        """The records to store, and whether the log has to be opened anew after them."""
        new: list[bytes] = []
        # Opening anew takes the reader back a little: not over and over for one that is busy.
        is_fresh = now - self._opened < FRESH
        is_behind = not is_fresh and later(stamp(batch[0]), BEHIND)[:19] < now.isoformat()[:19]
        for record in batch:
            key = _key(record)
            if key <= self._newest:
                if key in self._recent or key in self._before:
                    continue
                if key < self._floor:
                    return new, True
            else:
                if is_behind and self._newest != self._start and _is_jump(self._newest, key):
                    return new, True
                self._newest = key
            self._recent.add(key)
            new.append(record)
        if len(self._recent) > REMEMBERED:
            self._before, self._recent = self._recent, set()
            self._floor, self._next_floor = self._next_floor, self._newest
        return new, False


def _key(record: bytes) -> bytes:
    """What a record is known by: itself, or its beginning and a digest where it is long.

    Forty thousand of the longest would take all memory. Timestamps stay in their order.
    """
    if len(record) <= KEY:
        return record
    return record[: KEY // 2] + sha256(record).digest()


def _is_jump(before: bytes, after: bytes) -> bool:
    """Whether no line at all stands between two moments that are far apart."""
    if before[:21] == after[:21]:
        return False
    return later(stamp(before), JUMP) < stamp(after)


def find_missing(docker: Iterable[bytes], stored: Iterator[list[bytes]]) -> Iterator[bytes]:
    """Docker's records that are not among the stored ones, in Docker's order.

    Both stand nearly in the order of their timestamps, so that two windows are compared
    and never two whole logs.
    """
    waiting: Counter[bytes] = Counter()
    read_to = ""
    for record in docker:
        key = _key(record)
        if key not in waiting:
            at = stamp(record)
            start, end = earlier(at).encode(), later(at)
            while key not in waiting and read_to < end and (block := next(stored, None)):
                read_to = stamp(block[-1])
                waiting.update(_key(old) for old in block if old >= start)
        if key not in waiting:
            yield record
        elif waiting[key] == 1:
            del waiting[key]
        else:
            waiting[key] -= 1


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
            self._tell_once(samples.describe_full_disk(error) or f"the database is away: {error}")
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

    def _note_complete(self) -> bool:
        """That the log is whole; False where stop() was called meanwhile."""
        if self._stopping.is_set():
            return False
        RunLog.objects.filter(run=self.run_id).update(is_complete=True)
        events.publish_log_growth(self.run_id, self._upto)
        return True

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

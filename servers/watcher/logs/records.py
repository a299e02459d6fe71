"""Records of a log from Docker's stream: whole lines, redacted, none twice."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from hashlib import sha256

from servers.models.logs import NOTE
from servers.models.people.key import MASK, shapes

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

"""From what Docker hands out to the records of a log: whole lines, masked, none twice."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from servers.models.log import NOTE
from servers.models.secret import MASK, SHORTEST

type Frame = tuple[str, str, bytes]  # RFC 3339 timestamp, "o" or "e", a line

# A longer line is stored as several: a browser has to lay each of them out.
LONGEST = 256 * 1024

# stdout and stderr are stamped by two threads of Docker's, so that a line can stand after
# one that is younger, though never by much.
SLACK = timedelta(seconds=2)


def secrets_pattern(values: Iterable[str]) -> re.Pattern[bytes] | None:
    """Matches every line of every value; None when there is nothing to mask."""
    parts = {part.strip() for value in values for part in value.splitlines()}
    wanted = sorted((part for part in parts if len(part) >= SHORTEST), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, wanted)).encode()) if wanted else None


def records(frames: Iterable[Frame], secrets: re.Pattern[bytes] | None) -> Iterator[bytes]:
    """`<timestamp> <stream> <text>` for every line, valid UTF-8 and masked."""
    for at, stream, text in frames:
        if secrets is not None:
            text = secrets.sub(MASK.encode(), text)
        if len(text) > LONGEST or b"\n" in text:
            for line in text.split(b"\n"):
                for start in range(0, len(line) or 1, LONGEST):
                    yield _record(at, stream, line[start : start + LONGEST])
        else:
            yield _record(at, stream, text)


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


def earlier(at: str, by: timedelta = SLACK) -> str:
    """The timestamp moved back; fractions of a second stay as they are."""
    return (datetime.fromisoformat(at[:19]) - by).isoformat() + at[19:]


def later(at: str, by: timedelta = SLACK) -> str:
    return earlier(at, -by)


class Repeats:
    """Tells lines that are stored already from new ones, by timestamp, stream and text."""

    def __init__(self, stored: Iterable[bytes] = ()) -> None:
        self._stored = Counter(stored)
        # Once Docker is past this moment nothing of what is stored comes again.
        self._until = later(stamp(max(self._stored))).encode() if self._stored else b""

    def without(self, batch: list[bytes]) -> list[bytes]:
        if not self._stored:
            return batch
        new = []
        for record in batch:
            left = self._stored.get(record, 0)
            if left == 0:
                new.append(record)
            elif left == 1:
                del self._stored[record]
            else:
                self._stored[record] = left - 1
        if batch and batch[0] > self._until:
            self._stored.clear()
        return new


def missing(docker: Iterable[bytes], stored: Iterator[list[bytes]]) -> Iterator[bytes]:
    """Docker's records that are not among the stored ones, in Docker's order.

    Both stand nearly in the order of their timestamps, so that two windows are compared
    and never two whole logs.
    """
    waiting: Counter[bytes] = Counter()
    read_to = ""
    for record in docker:
        if record not in waiting:
            at = stamp(record)
            start, end = earlier(at).encode(), later(at)
            while record not in waiting and read_to < end and (block := next(stored, None)):
                read_to = stamp(block[-1])
                waiting.update(old for old in block if old >= start)
        if record not in waiting:
            yield record
        elif waiting[record] == 1:
            del waiting[record]
        else:
            waiting[record] -= 1

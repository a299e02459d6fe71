"""A run's log, as chunks of numbered lines."""

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.db import models, transaction
from django.db.models.functions import Coalesce

from servers.models.runs.run import Run
from servers.models.runs.run_parts import RunLog

# A chunk is closed when it holds this many lines or bytes; until then it is rewritten, so
# that a slow log does not become a row a line. Small enough that a window decodes little.
CHUNK_LINES = 512
CHUNK_BYTES = 64 * 1024
# Chunks read in one go where lines may be long: some 4 MiB of text, 20 MiB at worst.
MOST_CHUNKS = 64
_LEVEL = 4  # zlib: half the time of the default, a tenth larger

# Streams: what the container wrote, and what inferdash itself notes between its lines.
STDOUT, STDERR, NOTE = "o", "e", "i"


class StoredLine(NamedTuple):
    number: int
    at: str  # RFC 3339 with nanoseconds, as Docker stamped it
    stream: str  # "o", "e" or "i"
    text: str


class LogMovedError(Exception):
    """Somebody else has stored lines of this run since the writer last looked."""


def _decode(first: int, body: bytes) -> list[StoredLine]:
    lines = []
    for number, record in enumerate(zlib.decompress(body).decode().split("\n"), first):
        at, stream, text = record.split(" ", 2)
        lines.append(StoredLine(number, at, stream, text))
    return lines


class LogChunkQuerySet(models.QuerySet["LogChunk"]):
    def lines(
        self, run_id: int, after: int, limit: int, *, most: int | None = None
    ) -> list[StoredLine]:
        """Up to `limit` lines that follow line number `after`, in order.

        `most` bounds the chunks that are read, and with them the memory that long lines take:
        there may be fewer lines then, but at least one where there is one.
        """
        at = self.filter(run_id=run_id, first__lte=after + 1).order_by("-first").values("first")
        chunks = self.filter(
            run_id=run_id, first__gte=models.Subquery(at[:1]), first__lte=after + limit
        ).values_list("first", "body")
        found = [
            line
            for first, body in chunks.order_by("first")[:most]
            for line in _decode(first, bytes(body))
            if line.number > after
        ]
        if not found and (later := self._first_after(run_id, after)):
            return self.lines(run_id, later - 1, limit, most=most)
        return found[:limit]

    def _first_after(self, run_id: int, number: int) -> int | None:
        """Where the log goes on after lines that were cut out of it."""
        later = self.filter(run_id=run_id, first__gt=number + 1).order_by("first")
        return later.values_list("first", flat=True).first()

    def lines_before(self, run_id: int, before: int, limit: int, *, most: int) -> list[StoredLine]:
        """The `limit` lines that stand before line number `before`, in order; see lines()."""
        chunks = self.filter(run_id=run_id, first__lt=before).order_by("-first")
        found: list[StoredLine] = []
        for first, body in chunks.values_list("first", "body")[:most]:
            found = [line for line in _decode(first, bytes(body)) if line.number < before] + found
            if len(found) >= limit:
                break
        return found[-limit:]

    def tail(self, run_id: int, n: int) -> list[StoredLine]:
        """The last `n` lines, or all of them where there are fewer."""
        newest = self.filter(run_id=run_id).order_by("-first").first()
        if newest is None:
            return []
        return self.lines(run_id, max(newest.last - n, 0), n)

    def blocks(self, run_id: int) -> Iterator[tuple[int, str]]:
        """The whole log, a chunk at a time: the first line's number, and one record a line."""
        chunks = self.filter(run_id=run_id).order_by("first").values_list("first", "body")
        for first, body in chunks.iterator(chunk_size=64):
            yield first, zlib.decompress(bytes(body)).decode()

    def records_since(self, run_id: int, at: str) -> list[bytes]:
        """The records that Docker stamped `at` or later, in order."""
        wanted = at.encode()
        found: list[list[bytes]] = []
        for chunk in self.filter(run_id=run_id).order_by("-first").iterator(chunk_size=16):
            late = [record for record in chunk.plain().split(b"\n") if record >= wanted]
            if not late:
                break
            found.append(late)
        return [record for block in reversed(found) for record in block]

    def bodies(self, run_id: int, at: int, limit: int) -> list[tuple[int, int, bytes]]:
        """First line, count and compressed body of `limit` chunks from the one with line `at` on."""
        start = self.filter(run_id=run_id, first__lte=at).order_by("-first").values("first")[:1]
        chunks = self.filter(run_id=run_id, first__gte=Coalesce(models.Subquery(start), 0))
        found = chunks.order_by("first").values_list("first", "count", "body")[:limit]
        return [(first, count, bytes(body)) for first, count, body in found if first + count > at]

    def bodies_before(self, run_id: int, before: int, limit: int) -> list[tuple[int, int, bytes]]:
        """The `limit` chunks that begin before line `before`, the last one first; see bodies()."""
        chunks = self.filter(run_id=run_id, first__lt=before).order_by("-first")
        found = chunks.values_list("first", "count", "body")[:limit]
        return [(first, count, bytes(body)) for first, count, body in found]

    def pick_lines(self, run_id: int, numbers: list[int]) -> list[StoredLine]:
        """These lines, in their order; those that are not there are left out."""
        wanted = sorted(set(numbers))
        found: list[StoredLine] = []
        while wanted:
            chunk = self.filter(run_id=run_id, first__lte=wanted[0]).order_by("-first").first()
            lines = {} if chunk is None else {line.number: line for line in chunk.lines()}
            last = chunk.last if chunk is not None else 0
            here = [number for number in wanted if number <= max(last, wanted[0])]
            found += [lines[number] for number in here if number in lines]
            wanted = wanted[len(here) :]
        return found

    def append(self, run_id: int, after: int, records: list[bytes], **beside: Any) -> int:
        """Store records as the lines that follow `after`; return the last line's number.

        `beside` are columns of RunLog that are true of its log from then on. Raises Moved,
        storing nothing, when the run's log does not end at `after`.
        """
        with transaction.atomic():
            log = RunLog.objects.select_for_update().filter(run=run_id)
            if log.values_list("lines", flat=True).first() != after:
                raise LogMovedError
            tail = self.filter(run_id=run_id).order_by("-first").first()
            first, new = after + 1, records
            if tail is not None and not _is_full(tail.count, len(stored := tail.plain())):
                records = [*stored.split(b"\n"), *records]
                first = tail.first
                tail.delete()
            self.bulk_create(_chunks(run_id, first, records))
            upto = first + len(records) - 1
            size = sum(map(len, new)) + len(new)
            log.update(lines=upto, size=models.F("size") + size, **beside)
        return upto


def _is_full(lines: int, size: int) -> bool:
    return lines >= CHUNK_LINES or size >= CHUNK_BYTES


def _chunks(run_id: int, first: int, records: list[bytes]) -> Iterator["LogChunk"]:
    start = size = 0
    for index, record in enumerate(records, 1):
        size += len(record) + 1
        if _is_full(index - start, size) or index == len(records):
            yield LogChunk.from_records(run_id, first + start, records[start:index])
            start, size = index, 0


class LogChunk(models.Model):
    """Lines first..first+count-1 of a run, compressed. Lines are numbered from 1.

    Where lines were cut out (servers.watcher.logs.writer) one record, a note, stands for all of them.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="log_chunks")
    first = models.PositiveIntegerField()
    count = models.PositiveIntegerField()
    # zlib; one record a line: "<RFC 3339 timestamp> <o|e|i> <text>"
    body = models.BinaryField()
    size = models.PositiveIntegerField(default=0)  # bytes of these records

    objects = LogChunkQuerySet.as_manager()

    class Meta:
        ordering = ["first"]
        constraints = [models.UniqueConstraint(fields=["run", "first"], name="one_chunk_a_line")]

    def __str__(self) -> str:
        return f"run {self.run_id}, lines {self.first}-{self.last}"

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @classmethod
    def from_records(
        cls, run_id: int, first: int, records: list[bytes], *, count: int = 0
    ) -> "LogChunk":
        """These records as a chunk; with a count, they stand for so many lines."""
        plain = b"\n".join(records)
        return cls(
            run_id=run_id,
            first=first,
            count=count or len(records),
            body=zlib.compress(plain, _LEVEL),
            size=len(plain) + 1,
        )

    def lines(self) -> list[StoredLine]:
        return _decode(self.first, bytes(self.body))

    def plain(self) -> bytes:
        return zlib.decompress(bytes(self.body))

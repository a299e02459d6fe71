"""Follows the logs of containers: every line is stored once, in order, without secrets.

A follower is a thread a run. It reads `docker logs` (never `attach`: an attached client
that stops reading would block the engine for good), stores batches, and ends when the
container has ended and what is stored was compared with what Docker has. Whatever goes
away meanwhile (Docker, the database, Redis) is waited for: the place to go on from is the
last stored line.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import accumulate

from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from servers import live
from servers.host.containers import ContainerError, Docker
from servers.host.logstream import LogStream, LogStreamError
from servers.lifecycle import creation
from servers.models import LogChunk, Run
from servers.models.log import NOTE, Line, Moved
from servers.models.tokens import mask_tokens, masked
from servers.watcher.loglines import (
    Order,
    earlier,
    missing,
    nanoseconds_later,
    note,
    records,
    secrets_pattern,
    stamp,
)

log = logging.getLogger(__name__)

# A line that comes alone is stored at once; in a stream of them, batches this far apart. Each
# costs the same whatever its size, so that several busy logs wait longer, each for its own.
BATCH_EVERY, BATCH_EVERY_AT_MOST = 0.05, 0.5
BUSY = 20  # lines in a batch
BATCH_LINES = 8192
BATCH_BYTES = 4 * 1024 * 1024
# So many lines wait for the database before Docker has to.
READ_AHEAD = 4 * BATCH_LINES
READ_AHEAD_BYTES = 4 * BATCH_BYTES
RETRY_FIRST, RETRY_MOST = 0.25, 5.0
JOIN_WITHIN = 5.0

_followers: dict[int, "Follower"] = {}
_lock = threading.Lock()
# One transaction at a time: SQLite lets those who wait for another sleep, unfairly and for long.
_appending = threading.Lock()


def follow(run_id: int, container_id: str, *, masks: Iterable[str] = ()) -> "Follower":
    """See to it that a thread follows this container's log. Calling again changes nothing."""
    with _lock:
        running = _followers.get(run_id)
        if running is not None and running.is_alive():
            return running
        follower = Follower(run_id, container_id, masks=masks, docker=creation.docker())
        _followers[run_id] = follower
        follower.start()
        return follower


def pause_between_batches() -> float:
    """Seconds; for one busy log as short as it can be."""
    with _lock:
        busy = sum(follower.is_busy for follower in _followers.values())
    return min(BATCH_EVERY * max(1, busy / 2), BATCH_EVERY_AT_MOST)


def stop_all() -> None:
    """End all followers. They go on from the last stored line after a restart."""
    with _lock:
        running = list(_followers.values())
        _followers.clear()
    for follower in running:
        follower.stop()
    deadline = time.monotonic() + JOIN_WITHIN
    for follower in running:
        follower.join(max(deadline - time.monotonic(), 0))


class Stream(threading.Thread):
    """Reads records ahead of the database, so that neither waits for the other's pauses."""

    def __init__(self, source: LogStream, secrets: re.Pattern[bytes] | None) -> None:
        super().__init__(name="log-stream", daemon=True)
        self._source = source
        self._secrets = secrets
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
            for record in records(self._source, self._secrets):
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


class Follower(threading.Thread):
    def __init__(
        self, run_id: int, container_id: str, *, masks: Iterable[str], docker: Docker
    ) -> None:
        super().__init__(name=f"log-{run_id}", daemon=True)
        self.run_id = run_id
        self.container_id = container_id
        self.docker = docker
        self._secrets = secrets_pattern(masks)
        self._stopping = threading.Event()
        self._stream: Stream | None = None
        self._upto = 0
        self._trouble = ""
        self._is_set_back = False  # the database is an older one by now
        self.is_busy = False
        self._is_out_of_step = False

    def stop(self) -> None:
        self._stopping.set()
        if self._stream is not None:
            self._stream.close()

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
        except Run.DoesNotExist:
            return True  # deleted together with its log
        except (ContainerError, LogStreamError) as error:
            self._tell_once(f"Docker does not hand out the log: {error}")
        except Moved:
            self._tell_once("another watcher stores the same log; is inferdash running twice?")
        except (DatabaseError, InterfaceError) as error:
            self._tell_once(f"the database is away: {error}")
            close_old_connections()
        else:
            self._trouble = ""
            return is_done
        return False

    def _tell_once(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("Log of run %s: %s Trying again.", self.run_id, trouble)

    def _read_to_end(self) -> bool:
        """Store what the container writes until the stream ends; whether the log is whole."""
        self._is_set_back = False
        self._upto = Run.objects.values_list("log_lines", flat=True).get(pk=self.run_id)
        if self.docker.inspect(self.container_id) is None:
            return self._finish()
        since, order = self._resume()
        source = self.docker.logs(self.container_id, since=since, follow=True)
        stream = self._stream = Stream(source, self._secrets)
        try:
            while not self._stopping.is_set():
                batch = stream.take()
                if not batch:
                    break
                self.is_busy = len(batch) >= BUSY
                new, self._is_out_of_step = order.new(batch, datetime.now(UTC))
                self._store(new)
                if self._is_out_of_step or self._is_set_back:
                    return False
                self._stopping.wait(0 if stream.has_more else pause_between_batches())
        finally:
            self.is_busy = False
            stream.close()
        if self._stopping.is_set():
            return False
        if stream.error is not None:
            raise stream.error
        return self._finish()

    def _resume(self) -> tuple[str, Order]:
        """From when to read, and what of that is stored already."""
        last = LogChunk.objects.tail(self.run_id, 1)
        if not last:
            return "", Order([], datetime.now(UTC))
        newest = last[0].at
        since = earlier(newest)
        gap = Run.objects.values_list("log_gap", flat=True).get(pk=self.run_id)
        if gap and since <= gap["to"]:
            since = nanoseconds_later(gap["to"], 1)
        stored = LogChunk.objects.records_since(self.run_id, since)
        newest = max([newest, *map(stamp, stored)])
        oldest = self._oldest()
        if oldest is not None and stamp(oldest) > newest and last[0].stream != NOTE:
            self._store([note(newest, _gap(newest, stamp(oldest)))])
        return since, Order(stored, datetime.now(UTC))

    def _oldest(self) -> bytes | None:
        """The first line that Docker still has."""
        source = self.docker.logs(self.container_id)
        try:
            return next(records(source, self._secrets), None)
        finally:
            source.close()

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
                self._upto = LogChunk.objects.append(self.run_id, self._upto, batch)
        except Moved:
            # The connection may have been lost after the commit of an earlier attempt.
            upto = self._upto + len(batch)
            if Run.objects.values_list("log_lines", flat=True).get(pk=self.run_id) < self._upto:
                # What it has lost is read from Docker again, and this batch with it.
                self._is_set_back = True
                return True
            if LogChunk.objects.lines(self.run_id, upto - 1, 2) != [_line(upto, batch[-1])]:
                raise
            self._upto = upto
        live.log_grew(self.run_id, self._upto)
        return True

    def _finish(self) -> bool:
        """Compare with Docker's own log once the container has ended."""
        container = self.docker.inspect(self.container_id)
        if container is None:
            self._tell_removed()
        elif not container.has_ended or not self._is_whole():
            return False
        if self._stopping.is_set():
            return False
        Run.objects.filter(pk=self.run_id).update(log_complete=True)
        live.log_grew(self.run_id, self._upto)
        return True

    def _tell_removed(self) -> None:
        """inferdash removes a container only once its log is complete: this was somebody else."""
        last = LogChunk.objects.tail(self.run_id, 1)
        at = last[0].at if last else datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000000Z")
        if not last or last[0].stream != NOTE:
            words = "… the container was removed here, outside inferdash: lines may be missing."
            self._store([note(at, words)])

    def _is_whole(self) -> bool:
        """Whether everything that Docker has is stored; what was left out is stored now.

        An answer that breaks off looks like one that ends, so that only a look at all of it
        that found nothing new is the last one.
        """
        seen = ""

        def watched(found: Iterable[bytes]) -> Iterator[bytes]:
            nonlocal seen
            for record in found:
                seen = max(seen, stamp(record))
                yield record

        blocks = LogChunk.objects.blocks(self.run_id)
        stored = (block.encode().split(b"\n") for _first, block in blocks)
        source = self.docker.logs(self.container_id)
        kept = self._not_cut_out(watched(masked(records(source, self._secrets))))
        left_out = list(missing(kept, stored))
        last = LogChunk.objects.tail(self.run_id, 1)
        if not left_out:
            return not seen or not last or seen >= last[0].at
        if last and stamp(left_out[0]) < last[0].at:
            words = f"… {len(left_out)} lines that Docker's stream had left out, in their order:"
            left_out.insert(0, note(last[0].at, words))
        self._store(left_out)
        return False

    def _not_cut_out(self, found: Iterable[bytes]) -> Iterator[bytes]:
        """Without the time of which inferdash itself removed lines, to bound the log."""
        gap = Run.objects.values_list("log_gap", flat=True).get(pk=self.run_id)
        for record in found:
            if not gap or not gap["from"] <= stamp(record) <= gap["to"]:
                yield record


def _line(number: int, record: bytes) -> Line:
    at, stream, text = record.decode().split(" ", 2)
    return Line(number, at, stream, text)


def _gap(newest: str, oldest: str) -> str:
    return (
        f"… lines may be missing here, between {newest[11:19]} and {oldest[11:19]} UTC: Docker "
        "had rotated them away before inferdash could read them."
    )

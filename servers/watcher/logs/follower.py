"""Followers of logs of containers and of processes: every line stored once, in order, without secrets.

A follower is a thread a run. It reads `docker logs` (never `attach`: an attached client
that stops reading would block the engine for good), stores batches, and ends when the
container has ended and what is stored was compared with what Docker has. Whatever goes
away meanwhile (Docker, the database, Redis) is waited for: the place to go on from is the
last stored line.

Lines of a process's file have no moments of their own, so that each has the one at which it was
read. How far that is stands on the run, and is written with the lines: no line is stored twice,
whoever was away. The file is opened through the process, so that it is the same one however it is
called by now; what a rotation has cut off is said.
"""

import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from io import RawIOBase
from typing import Any

from servers import events
from servers.host import logs
from servers.host.docker.containers import Container, DockerContainers
from servers.host.kernel import processes
from servers.host.kernel.processes import ProcessId
from servers.host.logs import (
    LONGEST,
    Line,
    LogProgress,
    LogStream,
    PrintedError,
    ProcessStream,
)
from servers.judge.logs import parsing
from servers.launch.redaction import mask_lines, mask_tokens
from servers.lifecycle.external import own_log
from servers.lifecycle.runs import creation
from servers.models import LogChunk, Run, RunLog
from servers.models.logs import NOTE
from servers.models.runs.run_parts import find_boundary
from servers.watcher.logs.writer import (
    LogReadAhead,
    LogWriter,
    RecordOrder,
    earlier,
    find_missing,
    nanoseconds_later,
    note,
    records,
    secrets_pattern,
    slice_records,
    stamp,
)

log = logging.getLogger(__name__)

# A line that comes alone is stored at once; in a stream of them, batches this far apart. Each
# costs the same whatever its size, so that several busy logs wait longer, each for its own.
BATCH_EVERY, BATCH_EVERY_AT_MOST = 0.05, 0.5
BUSY = 20  # lines in a batch
JOIN_WITHIN = 5.0

_followers: dict[int, LogWriter] = {}
_lock = threading.Lock()


def follow(run_id: int, container_id: str, *, masks: Iterable[str] = ()) -> LogWriter:
    """See to it that a thread follows the log of this container, or of this process in none.

    Calling again changes nothing.
    """
    with _lock:
        running = _followers.get(run_id)
        if running is not None and running.is_alive():
            return running
        for over in [pk for pk, each in _followers.items() if not each.is_alive()]:
            del _followers[over]
        life = ProcessId.parse(container_id)
        follower: LogWriter = (
            FileFollower(run_id, life, masks=masks)
            if life is not None
            else Follower(run_id, container_id, masks=masks, docker=creation.docker())
        )
        _followers[run_id] = follower
        follower.start()
        return follower


def list_followed_runs() -> list[int]:
    """The runs whose logs are being followed."""
    with _lock:
        return [pk for pk, follower in _followers.items() if follower.is_alive()]


def let_go(run_id: int) -> None:
    """End the follower of a run whose container goes on without inferdash."""
    with _lock:
        follower = _followers.pop(run_id, None)
    if follower is not None:
        follower.stop()


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


class Follower(LogWriter):
    def __init__(
        self, run_id: int, container_id: str, *, masks: Iterable[str], docker: DockerContainers
    ) -> None:
        super().__init__(run_id)
        self.container_id = container_id
        self.docker = docker
        self._secrets = secrets_pattern(masks)
        self._stream: LogReadAhead | None = None
        self._source: LogStream | None = None
        self._order = RecordOrder([], datetime.now(UTC))  # knows what is stored
        # Of a container that was started more than once: what of its log is this run's.
        self._begin, self._end = "", ""
        self._has_terminal = False
        self._left_out = b""  # a digest of what the last look at the whole log found beside it

    def stop(self) -> None:
        super().stop()
        if self._stream is not None:
            self._stream.close()

    def _read_to_end(self) -> bool:
        """Store what the container writes until the stream ends; whether the log is whole."""
        self._is_set_back = False
        self._upto = RunLog.objects.values_list("lines", flat=True).get(run=self.run_id)
        container = self.docker.inspect(self.container_id)
        if container is None:
            return self._finish()
        self._has_terminal = container.has_terminal
        self._bound(container)
        since, order = self._resume()
        self._order = order
        source = self._source = self._open(since=since, follow=not self._end, with_rest=False)
        stream = self._stream = LogReadAhead(source, self._records(source))
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

    def _bound(self, container: Container) -> None:
        """See which part of the log is this run's: of a watched container not always all."""
        run = Run.objects.select_related("log").get(pk=self.run_id)
        self._begin, self._end = run.log.from_stamp, run.log.until_stamp
        began = container.started_at
        if run.is_watched and not self._end and began and run.started_at and began > run.started_at:
            self._end = find_boundary(container.ended_before, began) or f"{began:%Y-%m-%dT%H:%M:%S}"

    def _open(self, *, since: str = "", follow: bool = False, with_rest: bool = True) -> LogStream:
        return self.docker.logs(
            self.container_id,
            since=max(since, self._begin),
            follow=follow,
            has_terminal=self._has_terminal,
            with_rest=with_rest,
        )

    def _records(self, source: Iterable[Line]) -> Iterator[bytes]:
        found = records(source, self._secrets)
        return slice_records(found, self._begin, self._end) if self._begin or self._end else found

    def _resume(self) -> tuple[str, RecordOrder]:
        """From when to read, and what of that is stored already."""
        last = LogChunk.objects.tail(self.run_id, 1)
        if not last:
            self._tell_placed()
            return "", RecordOrder([], datetime.now(UTC))
        newest = last[0].at
        since = earlier(newest)
        gap = RunLog.objects.values_list("gap", flat=True).get(run=self.run_id)
        if gap and since <= gap["to"]:
            since = nanoseconds_later(gap["to"], 1)
        stored = LogChunk.objects.records_since(self.run_id, since)
        newest = max([newest, *map(stamp, stored)])
        oldest = self._oldest()
        if oldest is not None and stamp(oldest) > newest and last[0].stream != NOTE:
            number = self._count_gaps() + 1
            self._store([note(newest, _gap(number, newest, stamp(oldest)))])
        return since, RecordOrder(stored, datetime.now(UTC))

    def _count_gaps(self) -> int:
        blocks = LogChunk.objects.blocks(self.run_id)
        return sum(block.count(f" {NOTE} {_GAP} ") for _first, block in blocks)

    def _tell_placed(self) -> None:
        """Why it runs on this box, where inferdash has chosen it: the log's first line."""
        run = Run.objects.select_related("start").get(pk=self.run_id)
        if said := run.start.around.get("placed"):
            at = run.started_at or datetime.now(UTC)
            self._store([note(f"{at:%Y-%m-%dT%H:%M:%S}.000000000Z", f"… {said}")])

    def _oldest(self) -> bytes | None:
        """The first line that Docker still has."""
        source = self._open()
        try:
            return next(self._records(source), None)
        finally:
            source.close()

    def _finish(self) -> bool:
        """Compare with Docker's own log once the container has ended."""
        container = self.docker.inspect(self.container_id)
        if container is None:
            self._tell_removed()
        else:
            self._bound(container)
            if not (container.has_ended or self._end) or not self._is_whole():
                return False
        return self._note_complete()

    def _tell_removed(self) -> None:
        """inferdash removes a container only once its log is complete: this was somebody else."""
        if self._source is not None:  # what it wrote last is to be had nowhere else
            rest = list(mask_lines(self._records(self._source.rest)))
            self._store(self._order.new(rest, datetime.now(UTC))[0] if rest else [])
        last = LogChunk.objects.tail(self.run_id, 1)
        at = last[0].at if last else datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000000Z")
        if not last or last[0].stream != NOTE:
            words = "… the container was removed here, outside inferdash: lines may be missing."
            self._store([note(at, words)])

    def _is_whole(self) -> bool:
        """Whether everything that Docker has is stored; what was left out is stored now.

        An answer that breaks off looks like one that ends: only a look at all of it that found
        nothing new is the last one, and what two looks alike have found is stored. One alone may
        have seen half a line.
        """
        seen = ""

        def slice_watched(found: Iterable[bytes]) -> Iterator[bytes]:
            nonlocal seen
            for record in found:
                seen = max(seen, stamp(record))
                yield record

        blocks = LogChunk.objects.blocks(self.run_id)
        stored = (block.encode().split(b"\n") for _first, block in blocks)
        source = self._open()
        kept = self._not_cut_out(slice_watched(mask_lines(self._records(source))))
        left_out = list(find_missing(kept, stored))
        last = LogChunk.objects.tail(self.run_id, 1)
        if not left_out:
            return not seen or not last or seen >= last[0].at
        before, self._left_out = self._left_out, sha256(b"\n".join(left_out)).digest()
        if before != self._left_out:
            return False
        if last and stamp(left_out[0]) < last[0].at:
            words = f"… {len(left_out)} lines that Docker's stream had left out, in their order:"
            left_out.insert(0, note(last[0].at, words))
        self._store(left_out)
        self._source = None  # its rest is among them
        return False

    def _not_cut_out(self, found: Iterable[bytes]) -> Iterator[bytes]:
        """Without the time of which inferdash itself removed lines, to bound the log."""
        gap = RunLog.objects.values_list("gap", flat=True).get(run=self.run_id)
        for record in found:
            if not gap or not gap["from"] <= stamp(record) <= gap["to"]:
                yield record


_GAP = "… gap"


def _gap(number: int, newest: str, oldest: str) -> str:
    return (
        f"{_GAP} {number}: lines may be missing here, between {newest[11:19]} and {oldest[11:19]} UTC: Docker "
        "had rotated them away before inferdash could read them."
    )


# At once: the tick in which it is done asks engines, too.
MOST_LINES, MOST_CHUNKS = 20_000, 32


def search_patterns(run: Run) -> None:
    """Go on from where the last look ended, and tell what was found."""
    launch = run.version.launch
    texts = {*launch.log_must, *launch.log_must_not} - run.log.found.keys()
    if not texts or run.log.lines <= run.log.searched:
        return
    lines = LogChunk.objects.lines(run.pk, run.log.searched, MOST_LINES, most=MOST_CHUNKS)
    if not lines:
        return
    written = ((line.number, line.text) for line in lines if line.stream != NOTE)
    found = parsing.search_patterns(written, texts)
    run.log.searched = lines[-1].number
    run.log.found |= found
    new = {"searched": run.log.searched, "found": run.log.found}
    RunLog.objects.filter(run=run.pk).update(**new)
    if found:
        events.publish_change("server", run.server_id)


LOOK_EVERY = 0.25  # seconds
LINKS_EVERY = 2.0  # between two looks at where it prints to
BLOCK = 2 * 2**20  # bytes that are read, and stored, at once


@dataclass
class _File:
    """One that is being read. `offset` is behind the last line that was stored."""

    stream: str
    path: str
    inode: tuple[int, int]
    offset: int
    source: RawIOBase = field(repr=False)

    @property
    def progress(self) -> LogProgress:
        return LogProgress(self.path, self.inode, self.offset)


class FileFollower(LogWriter):
    def __init__(self, run_id: int, life: ProcessId, *, masks: Iterable[str]) -> None:
        super().__init__(run_id)
        self.life = life
        self._own = ""  # a file that its words name
        self._has_asked = False
        self._secrets = secrets_pattern(masks)
        self._files: dict[str, _File] = {}
        self._known: dict[str, dict[str, Any]] = {}  # of the run's row
        self._last = 0  # nanoseconds since 1970
        self._has_ended = False

    def _read_to_end(self) -> bool:
        row = RunLog.objects.get(run=self.run_id)
        self._upto, self._known = row.lines, dict(row.files)
        self._is_set_back = False
        try:
            self._open()
            looked_at = time.monotonic()
            while not self._stopping.is_set() and not self._is_set_back:
                # Before it is read: what it printed until its end is there then.
                self._has_ended = not self.life.is_running()
                if sum(self._read_on(each) for each in self._files.values()):
                    continue
                if self._has_ended:
                    return self._note_complete()
                if time.monotonic() - looked_at > LINKS_EVERY:
                    looked_at = time.monotonic()
                    self._open()
                processes.ends_within(self.life, LOOK_EVERY)
        finally:
            for each in self._files.values():
                each.source.close()
            self._files = {}
        return False

    def _open(self) -> None:
        """Its files; one that it has changed for another is read to its end first."""
        if not self._has_asked:
            self._own, self._has_asked = own_log(self.life), True
        told = logs.list_outlets(self.life.pid, own=self._own)
        outlets = [each for each in told if each.kind == "file"]
        if not self.life.is_running():
            self._reopen()
            return
        for outlet in outlets:
            before = self._files.get(outlet.stream)
            if before is not None:
                if before.inode == outlet.inode:
                    continue
                while self._read_on(before):
                    pass
                before.source.close()
            self._begin(outlet)

    def _begin(self, outlet: ProcessStream) -> None:
        source = logs.open_stream(self.life.pid, outlet.number, start=self.life.start)
        said = os.fstat(source.fileno())
        inode = (said.st_dev, said.st_ino)
        known = LogProgress.from_row(self._known.get(outlet.stream))
        is_known = known.inode == inode
        file = _File(
            stream=outlet.stream,
            path=outlet.path,
            inode=inode,
            offset=known.offset if is_known else 0,
            source=source,
        )
        self._files[outlet.stream] = file
        if not is_known:
            self._keep([note(self._stamp(), _find_beginning(outlet, said.st_size))])

    def _reopen(self) -> None:
        """It has ended: what is left of its files, as far as they still have their names."""
        for stream, said in self._known.items():
            if stream in self._files:
                continue
            known = LogProgress.from_row(said)
            try:
                source = logs.reopen_stream(self.life.pid, self.life.start, known.inode)
                words = f"… {known.path} is another file by now: lines may be missing."
            except PrintedError as error:
                source, words = None, f"… {error} Lines may be missing."
            if source is None:
                self._keep([note(self._stamp(), words)])
                continue
            self._files[stream] = _File(stream=stream, source=source, **known._asdict())

    def _read_on(self, file: _File) -> bool:
        """Store what is new in one file; whether there was anything."""
        size = os.fstat(file.source.fileno()).st_size
        if size < file.offset:
            file.offset = 0
            words = f"… {file.path} was cut off here, as a rotation does: lines may be missing."
            self._keep([note(self._stamp(), words)])
        file.source.seek(file.offset)
        block = file.source.read(BLOCK) or b""
        whole = block.rpartition(b"\n")[0] + b"\n" if b"\n" in block else b""
        if not whole and (len(block) >= LONGEST or (block and self._has_ended)):
            whole = block  # what goes on without a newline, or was the last that it printed
        if not whole:
            return False
        # A file that was cut off while it is written to has a hole at its beginning.
        lines = [line.lstrip(b"\0") for line in whole.removesuffix(b"\n").split(b"\n")]
        file.offset += len(whole)
        frames = ((self._stamp(), file.stream, line) for line in lines)
        self.is_busy = len(lines) > 20
        self._keep(mask_tokens(list(records(frames, self._secrets))))
        return True

    def _keep(self, batch: list[bytes]) -> None:
        """With how far each file is read, in one."""
        said = {stream: file.progress.to_json() for stream, file in self._files.items()}
        self._known = self._known | said
        self._beside = {"files": self._known}
        self._store(batch)

    def _stamp(self) -> str:
        """This moment, and a later one each time."""
        self._last = max(time.time_ns(), self._last + 1000)
        seconds, rest = divmod(self._last, 10**9)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def _find_beginning(outlet: ProcessStream, size: int) -> str:
    name = {"o": "standard output", "e": "standard error"}[outlet.stream]
    said = f"… its {name} goes to {outlet.path}."
    if outlet.is_own:
        said = f"… its words have it write its log to {outlet.path}."
    if size:
        said += " What stood there already follows with the moment at which it was read here."
    if outlet.is_appended and size:
        said += " The file is appended to: its first lines may be of earlier starts."
    return said

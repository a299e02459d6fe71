"""The follower of a process's log files.

Lines of a file have no moments of their own, so that each has the one at which it was read. How
far that is stands on the run, and is written with the lines: no line is stored twice, whoever was
away. The file is opened through the process, so that it is the same one however it is called by
now; what a rotation has cut off is said.
"""

import logging
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import RawIOBase
from typing import Any

from servers import events
from servers.host.kernel import processes
from servers.host.kernel.processes import ProcessId
from servers.host.logs import log_stream
from servers.host.logs.log_stream import LONGEST, PrintedError, ProcessStream
from servers.launch.redaction import mask_tokens
from servers.lifecycle.external import LogProgress, own_log
from servers.models import RunLog
from servers.watcher.logs.records import note, records, secrets_pattern
from servers.watcher.logs.writer import LogWriter

log = logging.getLogger(__name__)

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

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "inode": list(self.inode), "offset": self.offset}


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
                    return self._finish()
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
        told = log_stream.list_outlets(self.life.pid, own=self._own)
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
        source = log_stream.open_stream(self.life.pid, outlet.number, start=self.life.start)
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
                source = log_stream.reopen_stream(self.life.pid, self.life.start, known.inode)
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
        said = {stream: file.to_json() for stream, file in self._files.items()}
        self._known = self._known | said
        self._beside = {"files": self._known}
        self._store(batch)

    def _stamp(self) -> str:
        """This moment, and a later one each time."""
        self._last = max(time.time_ns(), self._last + 1000)
        seconds, rest = divmod(self._last, 10**9)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"

    def _finish(self) -> bool:
        if self._stopping.is_set():
            return False
        RunLog.objects.filter(run=self.run_id).update(is_complete=True)
        events.publish_log_growth(self.run_id, self._upto)
        return True


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

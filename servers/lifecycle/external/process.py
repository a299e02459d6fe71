"""A process that somebody else has started in no container: a venv, nohup, a systemd unit."""

import posixpath
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Self

from django.utils import timezone

from servers.host.external.containers import StartedError, StartedProcess, find_started_process
from servers.host.kernel.proc import Kernel
from servers.host.kernel.processes import ProcessId
from servers.host.logs import log_stream
from servers.host.logs.log_stream import PrintedError, ProcessStream
from servers.judge.external.engines import DiscoveredEngine
from servers.judge.runs.health import is_orderly
from servers.launch.commandline import engine_words
from servers.launch.commandline.draft import Draft, DraftError
from servers.launch.commandline.inspect import draft_of_process, without_python
from servers.launch.engines import ENGINES
from servers.launch.engines.engine import flag_value
from servers.lifecycle.external import import_diff
from servers.lifecycle.external.container import was_asked
from servers.lifecycle.external.workload import (
    TAIL,
    ExternalWorkload,
    WatchError,
    WorkloadEnd,
    format_lines,
)
from servers.models import Box, LogChunk, ProfileVersion, Run
from servers.models.logs import NOTE
from servers.models.runs.run import RunState

_BLOCK = 64 * 1024  # bytes at the end of a file in which its last lines stand

REBOOTED = "The box was restarted, and the process ended with it."
ORDERLY = (
    "Its log says that it was asked to end, and did. With which exit code is not known: only who "
    "has started it is told."
)


class ProcessWorkload(ExternalWorkload):
    what = "process"
    is_paused = False

    def __init__(self, found: DiscoveredEngine, kernel: Kernel | None = None) -> None:
        life = ProcessId.parse(found.container)
        assert life is not None
        self.found, self.life = found, life
        self.key, self.name = found.container, found.name
        self.started_at = found.began
        self._kernel = kernel or Kernel()

    @property
    def is_running(self) -> bool:
        return self.life.is_running(self._kernel)

    @property
    def identity(self) -> dict[str, str]:
        return self.found.identity

    @cached_property
    def _started(self) -> StartedProcess:
        try:
            return find_started_process(self.life.pid, start=self.life.start)
        except StartedError as error:
            raise WatchError(str(error)) from error

    def draft(self, box: Box, found: DiscoveredEngine | None) -> Draft:
        said = self._started
        try:
            made = draft_of_process(said.argv, said.env, folder=said.folder)
        except DraftError as error:
            raise WatchError(str(error)) from error
        model = next(iter((found or self.found).models), "")
        return replace(made, name=_name(made.name or model))

    def compare(self, box: Box, made: Draft, version: ProfileVersion) -> None:
        import_diff.of_process(box, self.found, self._started, made, version)

    @property
    def argv(self) -> tuple[str, ...]:
        return self._started.argv

    @property
    def env(self) -> Mapping[str, str]:
        return self._started.env or {}

    def origin(self) -> dict[str, Any]:
        why, command = self._unread()
        silent = {"no_log": why, "see_log": command} if why else {}
        return {
            **self.found.origin.to_json(),
            "name": self.name,
            "is_process": True,
            "has_log": not why,
            **silent,
        }

    @property
    def _outlets(self) -> tuple[ProcessStream, ...]:
        return log_stream.list_outlets(self.life.pid, self._kernel, own=own_log(self.life))

    def _unread(self) -> tuple[str, str]:
        """Why nothing that it prints can be read here, and what shows it; "" where it can be."""
        outlets = self._outlets
        files = [each for each in outlets if each.kind == "file"]
        try:
            for each in files:
                log_stream.open_stream(
                    self.life.pid, each.number, self._kernel, start=self.life.start
                ).close()
        except PrintedError as error:
            return str(error), self._look_there
        if files or not outlets:
            return "", ""
        return self._elsewhere(outlets[0])

    @property
    def _look_there(self) -> str:
        return f"sudo ls -l /proc/{self.life.pid}/fd/1 /proc/{self.life.pid}/fd/2"

    def _elsewhere(self, outlet: ProcessStream) -> tuple[str, str]:
        if outlet.kind == "journal":
            scope, _colon, name = self.found.origin.unit.rpartition(": ")
            way = "journalctl --user" if scope else "sudo journalctl"
            says = (
                "It prints into systemd’s journal, which inferdash does not read. It is shown by:"
            )
            return says, f"{way} -u {shlex.quote(name)} -f"
        if outlet.kind == "terminal":
            return (
                f"It prints to a terminal ({outlet.path}), which nobody else can read. Started with "
                "“> engine.log 2>&1” behind its command, it would print into a file.",
                "",
            )
        if outlet.kind == "pipe":
            return (
                "It prints into a pipe, to another program: what that does with it is seen by:",
                self._look_there,
            )
        if outlet.kind == "hidden":
            user = self.found.origin.user or "its user"
            return f"Where it prints to may be seen by {user} and root alone:", self._look_there
        return "It prints to nowhere (/dev/null, or closed).", ""

    def ways(self, port: int) -> tuple[tuple[str, int], ...]:
        return (("127.0.0.1", port),) if 0 < port < 65536 else ()

    def image_digest(self) -> str:
        return ""

    def log_files(self, last: Run | None) -> dict[str, Any]:
        if last is None or not last.log.files:
            return {}
        appended = {
            each.stream
            for each in self._outlets
            if each.is_appended
            and each.inode == LogProgress.from_row(last.log.files.get(each.stream)).inode
        }
        return {stream: said for stream, said in last.log.files.items() if stream in appended}


def own_log(life: ProcessId) -> str:
    """The file that a process's words or variables have its engine write its log to; "" for none."""
    try:
        said = find_started_process(life.pid, start=life.start)
    except StartedError:
        return ""
    found = engine_words.find(without_python(said.argv))
    engine = ENGINES[found[0]] if found else None
    if found is None or engine is None or not engine.log_flag:
        return ""
    path = flag_value(found[1], engine.log_flag) or (said.env or {}).get(engine.log_variable, "")
    return posixpath.join(said.folder, path) if path else ""


def end_process_run(run: Run, life: ProcessId, kernel: Kernel | None = None) -> WorkloadEnd:
    """The end of a process that does not run any more. Nobody but its parent hears how."""
    kernel = kernel or Kernel()
    lines = _last_lines(run, life)
    now = timezone.now()
    if life.boot and not (kernel.boot_id() or life.boot).startswith(life.boot):
        booted = run.server.box.booted_at
        return WorkloadEnd(state=RunState.STOPPED, status_message=REBOOTED, ended_at=booted or now)
    stopped = WorkloadEnd(state=RunState.STOPPED, ended_at=now, last_lines=format_lines(run, lines))
    if was_asked(run):
        return stopped
    if run.ready_at is not None and is_orderly(run.version.launch.engine, lines):
        return replace(stopped, status_message=ORDERLY)
    when = "while it was serving" if run.ready_at else "before it was ready"
    failure = (
        f"Process {life.pid} is gone: it ended {when}. With which exit code is not known, because "
        "only who has started a process is told; somebody may have ended it."
    )
    return replace(stopped, state=RunState.FAILED, failure=failure)


def _last_lines(run: Run, life: ProcessId) -> list[str]:
    """From its files, which may be ahead of what is stored; else what is stored."""
    for said in run.log.files.values():
        try:
            file = log_stream.reopen_stream(life.pid, life.start, LogProgress.from_row(said).inode)
        except PrintedError:
            continue
        if file is None:
            continue
        with file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _BLOCK))
            text = file.read(_BLOCK) or b""
        return text.decode(errors="replace").splitlines()[-TAIL:]
    stored = LogChunk.objects.tail(run.pk, TAIL)
    return [line.text for line in stored if line.stream != NOTE]


class LogProgress(NamedTuple):
    """How far a file was read, as a run's row keeps it."""

    path: str = ""
    inode: tuple[int, int] = (0, 0)  # device and number
    offset: int = 0  # bytes

    @classmethod
    def from_row(cls, said: object) -> Self:
        """Of nothing where the row is not as inferdash writes it."""
        match said:
            case {"path": str(path), "inode": [int(device), int(number)], "offset": int(offset)}:
                return cls(path, (device, number), max(0, offset))
        return cls()


def _name(said: str) -> str:
    return said.rstrip("/").rpartition("/")[2]

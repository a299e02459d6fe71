"""Workloads of external engines: their interface, containers, and processes in no container.

Such a process was started by somebody else in a venv, by nohup, or as a systemd unit.
"""

import logging
import posixpath
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, cast

from django.utils import timezone

from servers.host import logs
from servers.host.docker.containers import ContainerError
from servers.host.external.containers import (
    ASKED,
    ExternalContainer,
    StartedError,
    StartedProcess,
    find_started_process,
)
from servers.host.kernel.proc import Kernel
from servers.host.kernel.processes import ProcessId
from servers.host.logs import LogProgress, PrintedError, ProcessStream
from servers.judge.external.engines import DiscoveredEngine, Origin
from servers.judge.runs.health import is_orderly
from servers.launch.commandline import engine_words, text_boxes
from servers.launch.commandline.draft import Draft, DraftError
from servers.launch.commandline.inspect import argv, draft_of, draft_of_process, without_python
from servers.launch.commandline.tokens import EngineKey
from servers.launch.engines import ENGINES
from servers.launch.engines.engine import flag_value
from servers.lifecycle.external import import_diff
from servers.lifecycle.jobs.runner import JobError
from servers.lifecycle.runs import creation, restart_policy, starts
from servers.lifecycle.weights.inventory import hub_token
from servers.models import Box, LogChunk, ProfileVersion, Run
from servers.models.logs import NOTE
from servers.models.runs.run import RunState
from servers.models.runs.run_parts import find_boundary

log = logging.getLogger(__name__)

TAIL = 20  # lines
LONGEST_LAST_LINE = 4000  # characters


class WatchError(JobError):
    """It is not watched; the text says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class WorkloadEnd:
    """How a life has ended, as columns of its run."""

    state: RunState
    ended_at: datetime
    failure: str = ""
    status_message: str = ""
    exit_code: int | None = None
    oom_killed: bool = False
    until_stamp: str = ""
    last_lines: list[str] | None = None

    @property
    def fields(self) -> dict[str, Any]:
        said = asdict(self)
        del said["state"]
        of_log = {
            "until_stamp": said.pop("until_stamp"),
            "last_lines": said.pop("last_lines") or [],
        }
        return said | {f"log__{name}": value for name, value in of_log.items()}


class ExternalWorkload(ABC):
    """One life of it. Nothing here changes anything of it, or tells it anything."""

    key: str  # stands in Run.container_id
    name: str
    started_at: datetime | None
    image_id = ""
    log_from = ""  # see models.runs.run_parts
    what = "container"

    @property
    @abstractmethod
    def is_running(self) -> bool: ...

    @property
    @abstractmethod
    def is_paused(self) -> bool: ...

    @property
    @abstractmethod
    def identity(self) -> dict[str, str]:
        """What its successor will have in common with it (Server.watches)."""

    @abstractmethod
    def draft(self, box: Box, found: DiscoveredEngine | None) -> Draft:
        """The profile of what runs. `found` is what was seen of it.

        Raises WatchError, and ContainerError when Docker cannot be asked.
        """

    @abstractmethod
    def compare(self, box: Box, made: Draft, version: ProfileVersion) -> None:
        """Keep how the profile that was made of it would differ. Raises ContainerError."""

    @property
    @abstractmethod
    def argv(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def env(self) -> Mapping[str, str]:
        """What it was given, with secrets in it."""

    @property
    def told_by_environment(self) -> list[str]:
        return [
            text
            for name, text in self.env.items()
            if text_boxes.is_secret(name) or text_boxes.is_token(text)
        ]

    def list_secrets(self, made: Draft) -> list[str]:
        """Every value that it was given and that is nobody else's business."""
        return [*made.secrets.values(), *self.told_by_environment]

    @abstractmethod
    def origin(self) -> dict[str, Any]:
        """As models.runs.run_parts keeps it, without remarks."""

    @abstractmethod
    def ways(self, port: int) -> tuple[tuple[str, int], ...]:
        """Addresses and ports at which its box may reach this port of it."""

    @abstractmethod
    def image_digest(self) -> str: ...

    def log_files(self, last: Run | None) -> dict[str, Any]:
        """Where the log of a new life begins, if it goes on in the files of the last one."""
        return {}


def format_lines(run: Run, lines: list[str]) -> list[str]:
    return [starts.mask_secrets(run, line)[:LONGEST_LAST_LINE] for line in lines]


BY_POLICY = (
    "Docker’s restart policy has started its container again: it ended in between, and nobody saw "
    "how."
)
REBOOTED = "The box was restarted, and its container started again."
RESTARTED = "Its container was started again, outside inferdash."


class ContainerWorkload(ExternalWorkload):
    def __init__(self, other: ExternalContainer) -> None:
        self.other = other
        container = other.container
        self.key, self.name = container.id, container.name
        self.started_at = container.started_at
        self.image_id = container.image_id
        self.log_from = find_boundary(container.ended_before, container.started_at)

    @property
    def is_running(self) -> bool:
        return self.other.container.state == "running"

    @property
    def is_paused(self) -> bool:
        return self.other.container.state == "paused"

    @property
    def identity(self) -> dict[str, str]:
        """Compose gives a service's containers names of their own."""
        container = self.other.container
        labels = Origin.from_labels(container.labels, self.other.policy)
        # `docker compose run` makes one beside those of the service.
        is_own = container.labels.get("com.docker.compose.oneoff") == "True"
        if labels.project and labels.service and not is_own:
            return {"project": labels.project, "service": labels.service, "number": labels.number}
        return {"name": self.name}

    def draft(self, box: Box, found: DiscoveredEngine | None) -> Draft:
        try:
            return draft_of(
                self.other.inspected,
                creation.docker().made_from(self.image_id),
                engine=cast(EngineKey, found.engine) if found else None,
                model=found.models[0] if found and found.models else "",
                home=box.home,
                hf_cache=box.hf_cache,
                hf_token=hub_token(box),  # without one the container's own is kept as a secret
            )
        except DraftError as error:
            raise WatchError(
                f"{self.name} cannot be read as a profile: {error} Its engine's API has not "
                "answered either; try again when it does."
            ) from error

    def compare(self, box: Box, made: Draft, version: ProfileVersion) -> None:
        import_diff.of_container(box, self.other, made, version)

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(argv(self.other.inspected))

    @property
    def env(self) -> Mapping[str, str]:
        """Of the image, too."""
        return self.other.container.env

    def origin(self) -> dict[str, Any]:
        return {
            **Origin.from_labels(self.other.container.labels, self.other.policy).to_json(),
            "name": self.name,
            "image": self.other.image,
            "restarts": self.other.restarts,
            "has_log": self.other.has_log,
        }

    def ways(self, port: int) -> tuple[tuple[str, int], ...]:
        return self.other.ways(port)

    def image_digest(self) -> str:
        return creation.docker().digest_of(self.image_id)

    def end(self, run: Run, exit_code: int | None) -> WorkloadEnd | None:
        container = self.other.container
        is_restarting = container.state == "restarting"
        if container.has_ended or is_restarting:
            code = container.exit_code
            if is_restarting:
                code = self.other.inspected["State"]["ExitCode"]
            return self._build_end(run, code, until="")
        if self.started_at and run.started_at and self.started_at > run.started_at:
            until = find_boundary(container.ended_before, self.started_at)
            return self._build_end(run, exit_code, until=until)
        return None

    def _build_end(self, run: Run, code: int | None, *, until: str) -> WorkloadEnd:
        container = self.other.container
        with_box = bool(until) and restart_policy.was_before_boot(run, run.server.box.booted_at)
        lines = [] if until or not self.other.has_log else self._last_lines()
        judged = self._judge(run, code, is_again=bool(until))
        state = RunState.STOPPED if with_box else judged.state
        says = judged.says if state is RunState.STOPPED and not until else ""
        return WorkloadEnd(
            state=state,
            failure=judged.says if state is RunState.FAILED else "",
            exit_code=code,
            oom_killed=container.oom_killed,
            last_lines=format_lines(run, lines),
            ended_at=container.finished_at or container.ended_before or timezone.now(),
            until_stamp=until,
            status_message=(REBOOTED if with_box else RESTARTED) if until else says,
        )

    def _last_lines(self) -> list[str]:
        """None of a log that Docker cannot hand out: an end is one all the same."""
        try:
            return creation.docker().tail(self.key, TAIL)
        except ContainerError as error:
            log.warning("The last lines of %s are not known: %s", self.key[:12], error)
            return []

    def _judge(self, run: Run, code: int | None, *, is_again: bool) -> restart_policy.ExitJudgement:
        """As of a container of ours. `is_again`: it runs again, and what it ended with is not kept."""
        asked = True if was_asked(run) else self._was_told(run)
        if code is None and is_again and not asked:
            # Docker's policy counts the ends that nobody asked for.
            if self.other.restarts > int(run.start.origin.get("restarts", 0)):
                return restart_policy.ExitJudgement(state=RunState.FAILED, says=BY_POLICY)
            return restart_policy.ExitJudgement(state=RunState.STOPPED, says="")
        ended = replace(self.other.container, exit_code=code)
        return restart_policy.judge_exit(run.ready_at, ended, asked=asked)

    def _was_told(self, run: Run) -> bool | None:
        container = self.other.container
        ended = container.finished_at or container.ended_before or timezone.now()
        return creation.docker().was_told_to_end(self.key, began=run.started_at, ended=ended)


def was_asked(run: Run) -> bool:
    """Whether somebody has asked for its end a moment ago."""
    run.refresh_from_db(fields=["stop_requested_at", "ready_at"])
    asked = run.stop_requested_at
    return asked is not None and timezone.now() - asked < ASKED


def build_removed_end() -> WorkloadEnd:
    return WorkloadEnd(
        state=RunState.STOPPED, status_message=restart_policy.REMOVED, ended_at=timezone.now()
    )


_BLOCK = 64 * 1024  # bytes at the end of a file in which its last lines stand

ENDED_BY_REBOOT = "The box was restarted, and the process ended with it."
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
        name = (made.name or model).rstrip("/").rpartition("/")[2]
        return replace(made, name=name)

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
        return logs.list_outlets(self.life.pid, self._kernel, own=own_log(self.life))

    def _unread(self) -> tuple[str, str]:
        """Why nothing that it prints can be read here, and what shows it; "" where it can be."""
        outlets = self._outlets
        files = [each for each in outlets if each.kind == "file"]
        try:
            for each in files:
                logs.open_stream(
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
        return WorkloadEnd(
            state=RunState.STOPPED, status_message=ENDED_BY_REBOOT, ended_at=booted or now
        )
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
            file = logs.reopen_stream(life.pid, life.start, LogProgress.from_row(said).inode)
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

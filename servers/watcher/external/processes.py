"""Engines that run without a container: in a venv, by nohup, as a systemd unit.

A sample tells of processes in containers whose they are; of those in none this does, so that
everything that counts by containers counts them alike.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.conf import settings

from servers.host.docker.containers import ContainerError
from servers.host.external.containers import ExternalContainer, StartedError, find_started_process
from servers.host.kernel import processes
from servers.host.kernel.proc import Kernel, Process, Processes
from servers.host.kernel.processes import ProcessId, unit
from servers.judge.external.engines import DiscoveredEngine, Origin
from servers.judge.logs.diagnosis import Ending, diagnose
from servers.judge.profiles.facts import Subject
from servers.launch import numbers
from servers.launch.commandline import engine_words
from servers.launch.commandline.clusters import ray_start
from servers.launch.commandline.engine_words import split_engine_words
from servers.launch.commandline.inspect import command_of, without_python
from servers.launch.commandline.tokens import EngineKey
from servers.launch.engines import ENGINES
from servers.launch.engines.engine import flag_value
from servers.launch.redaction import mask_tokens
from servers.lifecycle.external import ContainerWorkload
from servers.lifecycle.external.workloads import WatchError
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs import creation
from servers.lifecycle.runs.starts import find_key_in
from servers.models import Box, Run
from servers.models.people.key import mask
from servers.watcher.external.discovery import DiscoveredLife, Ways

log = logging.getLogger(__name__)

# Lines at the end of a log that are read, and containers in one round.
LINES = 5000
AT_ONCE = 2

NO_LOG = "Docker keeps no log of it."


class Autopsies:
    """Each is looked at once for each of its ends."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self._told: dict[tuple[str, float | None], tuple[str, str]] = {}
        self._left = 0

    def begin(self, there: Collection[str]) -> None:
        """A round, in which these are there."""
        self._told = {end: told for end, told in self._told.items() if end[0] in there}
        self._left = AT_ONCE

    def add_reason(self, found: DiscoveredEngine, container: ContainerWorkload) -> DiscoveredEngine:
        """With the reason, once its turn has come. Raises ContainerError."""
        end = (found.container, found.ended_at)
        if found.exit_code is None:
            return found  # it has never run
        if end not in self._told:
            if self._left == 0:
                return found
            self._left -= 1
            self._told[end] = self._look(found, container)
        why, cause = self._told[end]
        return replace(found, why=why, cause=cause)

    def _look(self, found: DiscoveredEngine, container: ContainerWorkload) -> tuple[str, str]:
        """A sentence, "" where there is nothing to explain, and the cause."""
        if not container.other.has_log:
            return NO_LOG, ""
        try:
            lines, subject = self._read(container, found)
        except ContainerError as error:
            log.warning("Why %s has ended is not known: %s", found.name, error)
            return "", ""
        said = diagnose(
            Ending(
                lines=list(enumerate(lines, 1)),
                exit_code=found.exit_code,
                oom_killed=found.oom_killed,
                subject=subject,
                engine=found.engine,
                # What has printed more than a start does has served.
                was_ready=True if len(lines) >= LINES else None,
            )
        )
        return ("", "") if said.outcome == "ready" else (said.summary, said.cause or "")

    def _read(
        self, container: ContainerWorkload, found: DiscoveredEngine
    ) -> tuple[list[str], Subject | None]:
        """The lines that it printed last, without secrets, and what was launched."""
        raw = creation.docker().tail(container.key, LINES, since=container.started_at)
        try:
            made = container.draft(self.box, found)
        except WatchError:
            made = None
        told = container.list_secrets(made) if made is not None else container.told_by_environment
        raw = mask("\n".join(raw), told).split("\n") if raw else []
        lines = [line.decode() for line in mask_tokens([line.encode() for line in raw])]
        return lines, LaunchContext(made.launch, self.box).subject if made is not None else None


# What has ended stays as it is, and whoever starts it is heard of; but a message may be lost.
EVERY = 60.0


class EndedEngines:
    def __init__(self, box: Box) -> None:
        self._autopsies = Autopsies(box)
        self._known: dict[str, ExternalContainer] = {}
        self._found: dict[str, DiscoveredEngine | None] = {}
        self._read_at = float("-inf")

    def forget(self, container_id: str) -> None:
        """Something has happened to it."""
        self._known.pop(container_id, None)
        self._found.pop(container_id, None)

    def find(self) -> Iterator[DiscoveredEngine]:
        """Those that named an engine in their command or image. Raises ContainerError."""
        if time.monotonic() - self._read_at >= EVERY:
            self._known, self._found = {}, {}
            self._read_at = time.monotonic()
        others = creation.docker().list_ended(self._known)
        self._known = {other.container.id: other for other in others}
        self._autopsies.begin(self._known)
        for other in others:
            key = other.container.id
            if key not in self._found:
                self._found[key] = _inspect_safely(other)
            if (each := self._found[key]) is not None:
                yield self._autopsies.add_reason(each, ContainerWorkload(other))


def _inspect_safely(other: ExternalContainer) -> DiscoveredEngine | None:
    """As foreign.ExternalEngines looks at what runs."""
    try:
        return _inspect(other)
    except ContainerError:
        raise
    except Exception:
        log.exception("What ran in %s cannot be read", other.container.name)
        return None


def _inspect(other: ExternalContainer) -> DiscoveredEngine | None:
    image = creation.docker().made_from(other.container.image_id)
    command = command_of(other.inspected, image)
    words = engine_words.engine_words(command) if command.engine else None
    if command.engine is None or words is None:
        return None
    container = other.container
    said = split_engine_words(command.engine, words, command.env)
    return DiscoveredEngine(
        container=container.id,
        name=container.name,
        image=other.image,
        engine=command.engine,
        answer="ended",
        models=find_ended_model(said.checkpoint),
        port=said.port_number or ENGINES[command.engine].default_port,
        started_at=numbers.to_timestamp(container.started_at),
        ended_at=numbers.to_timestamp(container.finished_at),
        exit_code=container.exit_code,
        oom_killed=container.oom_killed,
        origin=Origin.from_labels(container.labels, other.policy),
    )


LONGEST_MODEL = 200


def find_ended_model(said: str | None) -> tuple[str, ...]:
    """The model that an engine's words name, if they name one."""
    return (said[:LONGEST_MODEL],) if said else ()


# Their words are those of a container, which is seen for itself.
_CLIENTS = ("docker", "podman", "nerdctl", "ssh", "kubectl")
# Ports of one process that are asked, where its words name none.
MOST_PORTS = 2


@dataclass(frozen=True, kw_only=True)
class RayWorkerProcess:
    """A process that works for a cluster of Ray's which begins elsewhere."""

    key: str  # see host.kernel.processes
    pid: int
    pids: tuple[int, ...]  # with its descendants
    head: str  # "10.0.0.1:6379"
    started_at: float | None
    command: str
    origin: Origin


class BareEngines:
    def __init__(self, kernel: Kernel | None = None) -> None:
        self._kernel = kernel or Kernel(root=settings.KERNEL_ROOT)
        self._processes = Processes(self._kernel)
        self.workers: tuple[RayWorkerProcess, ...] = ()  # of the last look

    def find(self) -> Iterator[DiscoveredEngine]:
        """Those that are no descendants of another one, the oldest first."""
        seen = {each.pid: each for each in self._processes.read(set(self._kernel.pids()))}
        engines = {
            pid: said
            for pid, each in seen.items()
            if not each.container and each.state not in "ZX" and (said := _engine(each.title))
        }
        children: dict[int, list[int]] = {}
        for each in seen.values():
            children.setdefault(each.ppid, []).append(each.pid)
        self.workers = tuple(self._workers(seen, children))
        below = {child for pid in engines for child in _tree(pid, children) if child != pid}
        for pid in sorted(engines.keys() - below, key=lambda pid: seen[pid].start):
            yield self._inspect(seen[pid], *engines[pid], pids=tuple(_tree(pid, children)))

    def _inspect(
        self, process: Process, engine: EngineKey, words: tuple[str, ...], *, pids: tuple[int, ...]
    ) -> DiscoveredEngine:
        said = split_engine_words(engine, words)
        return DiscoveredEngine(
            container=str(ProcessId.from_process(process.pid, process.start, self._kernel)),
            name=f"process {process.pid}",
            image="",
            engine=engine,
            answer="unasked",
            models=find_ended_model(said.checkpoint),
            port=said.port_number or ENGINES[engine].default_port,
            started_at=process.started_at,
            origin=Origin(unit=unit(self._kernel, process.pid), user=process.user or "somebody"),
            pid=process.pid,
            pids=pids,
            command=process.title,
        )

    def _workers(
        self, seen: dict[int, Process], children: dict[int, list[int]]
    ) -> Iterator[RayWorkerProcess]:
        below: set[int] = set()
        for pid, process in sorted(seen.items(), key=lambda each: each[1].start):
            if process.container or process.state in "ZX" or pid in below:
                continue
            words = process.title.split()
            ray = ray_start(words) if "ray" in process.title and words else None
            if ray is None or ray.is_head or engine_words.program(words[0]) in _CLIENTS:
                continue
            tree = _tree(pid, children)
            below |= set(tree)
            yield RayWorkerProcess(
                key=str(ProcessId.from_process(pid, process.start, self._kernel)),
                pid=pid,
                pids=tuple(tree),
                head=f"{ray.host}:{ray.port}",
                started_at=process.started_at,
                command=process.title,
                origin=Origin(unit=unit(self._kernel, pid), user=process.user or "somebody"),
            )

    def first_look(self, found: DiscoveredEngine) -> DiscoveredLife:
        """What can be asked of it, and where."""
        return DiscoveredLife(
            hint=found.engine,
            find_ways=partial(_ways, found, self._pids),
            key=_key(found),
            is_its=lambda port: True,
        )

    def _pids(self, found: DiscoveredEngine) -> tuple[int, ...]:
        """It and its descendants as they are now."""
        now = {each.container: each for each in self.find()}
        return now[found.container].pids if found.container in now else ()


def _ways(found: DiscoveredEngine, pids: Callable[[DiscoveredEngine], tuple[int, ...]]) -> Ways:
    """Where its engine may answer.

    Rule: at the port that its words name, or that is its engine's, if it listens there; else, where
    its words name none, at what its first process alone listens on. Its workers' ports are never
    asked: they speak other languages than HTTP.
    """
    words = tuple(found.command.split())
    said = _port(words)
    own = processes.list_listening_sockets(pids(found))
    wanted = said or ENGINES[found.engine].default_port
    places = [(address, port) for _pid, address, port in own if port == wanted]
    if not places and not said:
        places = [(address, port) for pid, address, port in own if pid == found.pid][:MOST_PORTS]
    if places:
        return tuple(((_near(address), port),) for address, port in places)
    # Whose sockets others' are is told to root alone; then its words are believed.
    nobody_told = not own and processes.listener(wanted) is None
    return ((("127.0.0.1", wanted),),) if nobody_told and os.geteuid() != 0 else ()


def _near(address: str) -> str:
    """As its own box reaches it."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104


def _key(found: DiscoveredEngine) -> str:
    """The key that its engine asks callers for, as its words or variables say."""
    life = ProcessId.parse(found.container)
    assert life is not None
    try:
        said = find_started_process(life.pid, start=life.start)
    except StartedError:
        return ""
    return find_key_in(said.argv, said.env or {})


def _port(words: tuple[str, ...]) -> int:
    """The port that it was told; 0 for none."""
    said = flag_value(words, "--port") or ""
    is_port = said.isascii() and said.isdigit() and 0 < int(said) < 65536
    return int(said) if is_port else 0


def _engine(title: str) -> tuple[EngineKey, tuple[str, ...]] | None:
    """The engine that a command line starts, and the words that it gets."""
    words = title.split()
    if not words or engine_words.program(words[0]) in _CLIENTS:
        return None
    return engine_words.find(without_python(words))


def _tree(pid: int, children: dict[int, list[int]]) -> list[int]:
    found = [pid]
    for each in found:
        found += [child for child in children.get(each, ()) if child not in found]
    return found


# Seconds after which somebody looks whether it is still watched.
_LOOK_EVERY = 5.0
_DEEPEST = 12  # generations between an engine and its worker


class ProcessTree:
    def __init__(self, wake: Callable[[], None], kernel: Kernel | None = None) -> None:
        self._wake = wake
        self._kernel = kernel or Kernel(root=settings.KERNEL_ROOT)
        self._followed: dict[tuple[int, int], str] = {}  # number and start: the run's key
        # Of every process that was seen: whose it is, also when its parent has ended before it.
        self._owners: dict[tuple[int, int], str] = {}
        self._waiting: dict[str, threading.Thread] = {}

    def follow(self, box: Box) -> None:
        """Look anew at which of the box's processes are watched."""
        active = Run.objects.active().filter_external().filter(server__box=box)
        keys = active.filter(container_id__startswith="pid-").values_list("container_id", flat=True)
        known = {key: life for key in keys if (life := ProcessId.parse(key)) is not None}
        self._followed = {(life.pid, life.start): key for key, life in known.items()}
        for key, life in known.items():
            thread = self._waiting.get(key)
            if thread is None or not thread.is_alive():
                self._waiting[key] = threading.Thread(
                    target=self._wait, args=[key, life], name=f"end-{life.pid}", daemon=True
                )
                self._waiting[key].start()

    def _wait(self, key: str, life: ProcessId) -> None:
        while (life.pid, life.start) in self._followed:
            if processes.ends_within(life, _LOOK_EVERY):
                self._wake()
                return

    def label_processes(self, sample: dict[str, Any]) -> dict[str, Any]:
        """The sample, in which each process has a container's id or the key of who is watched."""
        if not self._followed and not self._owners:
            return sample
        said = {name: [self._one(each) for each in sample.get(name) or []] for name in _LISTS}
        there = {(each["pid"], each["start"]) for name in _LISTS for each in said[name]}
        self._owners = {life: key for life, key in self._owners.items() if life in there}
        return sample | said

    def _one(self, process: Mapping[str, Any]) -> dict[str, Any]:
        if process.get("container"):
            return dict(process)
        life = (process["pid"], process["start"])
        owner = self._owners.get(life) or self._owner(*life)
        if not owner:
            return dict(process)
        self._owners[life] = owner
        return {**process, "container": owner}

    def _owner(self, pid: int, start: int) -> str:
        for _generation in range(_DEEPEST):
            if found := self._followed.get((pid, start)):
                return found
            said = self._kernel.life(pid)
            parent = self._kernel.life(said.ppid) if said and said.ppid > 1 else None
            if said is None or parent is None:
                return ""
            pid, start = said.ppid, parent.start
        return ""


_LISTS = ("processes", "programs")

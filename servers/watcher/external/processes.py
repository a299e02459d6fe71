"""Engines that run without a container: in a venv, by nohup, as a systemd unit."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from django.conf import settings

from servers.host.external.start_command import StartedError, find_started_process
from servers.host.kernel import ports
from servers.host.kernel.proc import Kernel, Process, Processes
from servers.host.kernel.process_id import ProcessId
from servers.host.kernel.units import unit
from servers.judge.external.engines import DiscoveredEngine
from servers.judge.external.origin import Origin
from servers.launch.commandline import engine_flags, engine_words
from servers.launch.commandline.command import EngineKey
from servers.launch.commandline.process import without_python
from servers.launch.commandline.ray import ray_start
from servers.launch.engines import ENGINES
from servers.launch.engines.engine import flag_value
from servers.models.runs.run import ENGINE_KEYS
from servers.watcher.external.discovery import DiscoveredLife, Ways
from servers.watcher.external.ended import model

# Their words are those of a container, which is seen for itself.
_CLIENTS = ("docker", "podman", "nerdctl", "ssh", "kubectl")
# Ports of one process that are asked, where its words name none.
MOST_PORTS = 2


@dataclass(frozen=True, kw_only=True)
class RayWorkerProcess:
    """A process that works for a cluster of Ray's which begins elsewhere."""

    key: str  # see host.kernel.process_id
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
        said = engine_flags.split(engine, words)
        return DiscoveredEngine(
            container=str(ProcessId.from_process(process.pid, process.start, self._kernel)),
            name=f"process {process.pid}",
            image="",
            engine=engine,
            answer="unasked",
            models=model(said.checkpoint),
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
    own = ports.list_listening_sockets(pids(found))
    wanted = said or ENGINES[found.engine].default_port
    places = [(address, port) for _pid, address, port in own if port == wanted]
    if not places and not said:
        places = [(address, port) for pid, address, port in own if pid == found.pid][:MOST_PORTS]
    if places:
        return tuple(((_near(address), port),) for address, port in places)
    # Whose sockets others' are is told to root alone; then its words are believed.
    nobody_told = not own and ports.listener(wanted) is None
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
    flag = flag_value(said.argv, "--api-key")
    env = said.env or {}
    return flag or next((value for name in ENGINE_KEYS if (value := env.get(name))), "")


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

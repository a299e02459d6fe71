"""Other workloads on the box's GPUs, and the systemd units that own them."""

import getpass
import os
import posixpath
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError
from servers.host.external.containers import ExternalContainer
from servers.host.external.unit_files import Service, UnitScript, services
from servers.host.kernel.proc import Kernel, Processes
from servers.host.kernel.processes import unit
from servers.judge.external.engines import Origin, WatcherRights, unseen
from servers.launch import numbers
from servers.launch.commandline import engine_words
from servers.launch.commandline.clusters import ray_start
from servers.launch.commandline.inspect import argv
from servers.launch.commandline.variables import Scope, Value
from servers.lifecycle.runs import creation, starts
from servers.models import Box, OtherWorkloads
from servers.watcher.external.processes import RayWorkerProcess

_CLIENTS = ("docker", "podman", "nerdctl")
_COMPOSE = "com.docker.compose"
_STARTS = ("run", "start", "attach")
# Options of `docker compose` before its verb that have a value.
_VALUED = ("-f", "--file", "-p", "--project-name", "--project-directory", "--profile", "--env-file")
_FILES_EVERY = 60.0  # seconds: somebody writes a unit seldom
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


class SystemdOwner(NamedTuple):
    unit: str
    via: str = ""  # files besides the unit's own that say so


NOBODY = SystemdOwner("")


class SystemdOwners:
    def __init__(self, kernel: Kernel | None = None) -> None:
        self._kernel = kernel or Kernel(root=settings.KERNEL_ROOT)
        self._processes = Processes(self._kernel)
        self._services: tuple[Service, ...] = ()
        self._read_at = float("-inf")

    def units(self, others: Iterable[ExternalContainer]) -> dict[str, SystemdOwner]:
        """By container, the unit whose `docker run`, `docker start` or `docker compose up` it
        answers to.

        A container itself is always in the cgroup of Docker's. A client that still runs is known
        by its own; of one that has done its work the unit's file tells.
        """
        others = list(others)
        names = {other.container.name: other.container.id for other in others}
        found = dict(self._by_files(others))
        for process in self._processes.read(set(self._kernel.pids())) if names else ():
            name = _find_container_name(process.title.split())
            if name in names and not process.container:
                its = unit(self._kernel, process.pid)
                if its and its != "session":
                    found[names[name]] = SystemdOwner(its)
        return found

    def _by_files(self, others: list[ExternalContainer]) -> Iterator[tuple[str, SystemdOwner]]:
        if others and time.monotonic() - self._read_at >= _FILES_EVERY:
            self._read_at = time.monotonic()
            self._services = services(self._kernel.root)
        for other in others:
            for service in self._services:
                if (via := _via(service, other)) is not None:
                    yield other.container.id, SystemdOwner(service.unit, " and ".join(via))
                    break


def _via(service: Service, other: ExternalContainer) -> tuple[str, ...] | None:
    """The files besides the unit's own that say that it starts this container; None: none does."""
    if any(_starts(words, service.folder, other) for words in service.commands):
        return service.drop_ins
    for script in service.scripts:
        for words, folder in _commands(script, service):
            if _starts(words, folder, other):
                return (*service.drop_ins, script.path)
    return None


def _commands(script: UnitScript, service: Service) -> Iterator[tuple[list[str], str]]:
    """The commands of a script, each with the folder in which it is run, as far as it says so."""
    scope = Scope(values={name: Value(text=text) for name, text in service.env.items()})
    folder = service.folder
    for command in engine_words.simple_commands(script.text):
        words = [argument.text for argument in scope.arguments(command)]
        words = words[1:] if words[:1] in (["export"], ["exec"]) else words
        said = [_ASSIGNMENT.fullmatch(word) for word in words]
        if said and all(said):
            for each in filter(None, said):
                scope.set(each[1], Value(text=each[2]))
        elif words[:1] == ["cd"] and len(words) > 1:
            folder = posixpath.join(folder or "/", words[1])
        elif words:
            yield words, folder


def _starts(words: Sequence[str], folder: str, other: ExternalContainer) -> bool:
    """Whether a unit's command makes or starts this container."""
    if _find_container_name(words) == other.container.name:
        return True
    labels = other.container.labels
    place = labels.get(f"{_COMPOSE}.project.working_dir", "")
    at = next((n for n, word in enumerate(words) if _is_compose(words, n)), -1)
    if at < 0 or not place:
        return False
    if "cd" in words[:at]:
        folder = words[words.index("cd") + 1]
    options, verb, rest = _split_options(words[at + 1 :])
    if verb not in ("up", "start", "restart"):
        return False
    services = [
        word for word in rest if not word.startswith("-") and not word.isdigit() and "=" not in word
    ]
    if services and labels.get(f"{_COMPOSE}.service") not in services:
        return False
    if name := options.get("-p") or options.get("--project-name"):
        return name == labels.get(f"{_COMPOSE}.project")
    if file := options.get("-f") or options.get("--file"):
        files = labels.get(f"{_COMPOSE}.project.config_files", "").split(",")
        return posixpath.normpath(posixpath.join(folder or "/", file)) in files
    return posixpath.normpath(options.get("--project-directory") or folder or "/") == place


def _is_compose(words: Sequence[str], at: int) -> bool:
    program = engine_words.program(words[at])
    is_plugin = program == "compose" and at > 0
    before = engine_words.program(words[at - 1]) if is_plugin else ""
    return program in ("docker-compose", "podman-compose") or before in _CLIENTS


def _split_options(words: Sequence[str]) -> tuple[dict[str, str], str, Sequence[str]]:
    """Options before the verb, the verb, and what stands behind it."""
    options: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        flag, equals, value = words[at].partition("=")
        if not equals and flag in _VALUED:
            at += 1
            value = words[at] if at < len(words) else ""
        options[flag] = value
        at += 1
    return options, words[at] if at < len(words) else "", words[at + 1 :]


def _find_container_name(words: Sequence[str]) -> str:
    """The container that a client's command line starts, by its name; "" for anything else."""
    at = next((n for n, word in enumerate(words[:3]) if engine_words.program(word) in _CLIENTS), -1)
    if at < 0 or not set(words[at + 1 : at + 3]) & set(_STARTS):
        return ""
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag == "--name":
            return value if equals else "".join(words[place + 1 : place + 2])
    is_start = bool(set(words[at + 1 : at + 3]) & {"start", "attach"})
    return words[-1] if is_start else ""


# Listing images costs Docker more than listing containers.
IMAGES_EVERY = 60.0


class OtherWorkloadsMonitor:
    """What the last look has found; a row is written only where that is anything new."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self._counted_at = float("-inf")
        self._images: dict[str, int] = {}

    def note(
        self,
        others: Iterable[ExternalContainer],
        engines: Collection[str],
        units: Mapping[str, SystemdOwner],
        sample: Mapping[str, Any] | None,
        *,
        workers: Iterable[RayWorkerProcess] = (),
    ) -> None:
        """`engines` are the containers that are told of elsewhere, `workers` processes of Ray in
        none. Raises ContainerError.
        """
        containers = [
            _describe_container(other, units)
            for other in others
            if other.container.id not in engines
        ]
        containers += [_of_process(worker) for worker in workers]
        containers.sort(key=lambda each: str(each["name"]))
        if time.monotonic() - self._counted_at >= IMAGES_EVERY:
            self._counted_at = time.monotonic()
            count, size = creation.docker().count_images()
            self._images = {"count": count, "size": size}
        self._keep(
            trouble="",
            containers=containers,
            images=self._images,
            unseen=[each.to_json() for each in unseen(_build_rights(), sample)],
        )

    def note_trouble(self, error: ContainerError, sample: Mapping[str, Any] | None) -> None:
        """Docker could not be asked; what is known stays."""
        standing = _build_rights(str(error), is_refused=error.kind == "no_permission")
        self._keep(trouble=str(error), unseen=[each.to_json() for each in unseen(standing, sample)])

    def _keep(self, **values: Any) -> None:
        defaults = {"looked_at": timezone.now(), **values}
        known, is_new = OtherWorkloads.objects.get_or_create(box=self.box, defaults=defaults)
        is_worker_new = _workers(values) != _workers({"containers": known.containers})
        if is_new or any(getattr(known, name) != value for name, value in values.items()):
            known.write(**defaults)
            events.publish_change("box", self.box.pk)
        if "containers" in values and (is_new or is_worker_new):
            # They stand on the card of the engine that they work for, on whichever box.
            for server in starts.list_ray_heads():
                events.publish_change("server", server)


def _workers(values: Mapping[str, Any]) -> list[Any]:
    return [
        (each["container"], each["ray"]) for each in values.get("containers", ()) if "ray" in each
    ]


def _of_process(worker: RayWorkerProcess) -> dict[str, Any]:
    return {
        "container": worker.key,
        "name": f"process {worker.pid}",
        "image": worker.command,
        "ports": [],
        "started_at": worker.started_at,
        "wants_gpus": True,
        "origin": worker.origin.to_json(),
        "ray": worker.head,
        "pids": list(worker.pids),
    }


def _describe_container(
    other: ExternalContainer, units: Mapping[str, SystemdOwner]
) -> dict[str, Any]:
    container = other.container
    began = container.started_at
    ports = sorted({port.host_port for port in container.published if port.host_port})
    attendant = units.get(container.id, NOBODY)
    origin = Origin.from_labels(container.labels, other.policy, **attendant._asdict())
    ray = ray_start(argv(other.inspected), container.env)
    works = {"ray": f"{ray.host}:{ray.port}"} if ray is not None and not ray.is_head else {}
    return {
        "container": container.id,
        "name": container.name,
        "image": other.image,
        "ports": ports,
        "started_at": numbers.to_timestamp(began),
        "wants_gpus": other.wants_gpus,
        "origin": origin.to_json(),
        **works,
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number that no /etc/passwd knows, as containers may have
        return str(os.geteuid())


def _build_rights(trouble: str = "", *, is_refused: bool = False) -> WatcherRights:
    return WatcherRights(
        user=_user(),
        is_root=os.geteuid() == 0,
        is_in_container=not Kernel(root=settings.KERNEL_ROOT).sees_host_pids(),
        docker_trouble=trouble,
        is_docker_refused=is_refused,
    )

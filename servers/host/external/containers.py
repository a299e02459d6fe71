"""Containers that somebody else made: how they look, how they were started, how they are stopped."""

import json
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from signal import Signals
from typing import Any
from urllib.parse import urlencode

import requests

from servers.host.docker.client import (
    APIError,
    DockerClient,
    DockerResponse,
    EventStream,
    NotFound,
    translate_errors,
)
from servers.host.docker.facts import Container, ContainerError, Event, Json
from servers.host.files import paths
from servers.host.kernel.proc import Kernel, Processes

INSTALL = "inferdash.install"
# More than a box runs; each costs Docker a few milliseconds.
MOST = 200
MOST_ENDED = 50
_ENDED = ("exited", "dead", "created")
# What a life of a container begins or ends with, and what asks it to end.
_HAPPENINGS = ("start", "die", "kill", "rename", "destroy", "pause", "unpause", "update")
# Signals that ask for no end: `docker run` hands on what its terminal sends it, such as the news that
# its window was resized.
NO_WISH = frozenset(
    map(int, (Signals.SIGWINCH, Signals.SIGUSR1, Signals.SIGUSR2, Signals.SIGCONT, Signals.SIGSTOP,
              Signals.SIGTSTP, Signals.SIGCHLD, Signals.SIGURG))
)  # fmt: skip
# What somebody asked Docker for so long before an end has no more to do with it.
ASKED = timedelta(minutes=10)
_PAST_WITHIN = 10.0  # seconds for an answer from Docker's memory
_LATE = timedelta(seconds=2)  # between an event and what Docker calls the end
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


@dataclass(frozen=True, kw_only=True)
class ExternalContainer:
    """A container without our label."""

    container: Container
    inspected: Json = field(repr=False)  # Docker's own words, with the secrets in them

    @property
    def image(self) -> str:
        """The reference that it was asked for with."""
        return str(self.inspected["Config"].get("Image") or self.container.image_id)

    @property
    def policy(self) -> str:
        """Docker's restart policy; "" where it has none."""
        name = (self.inspected["HostConfig"].get("RestartPolicy") or {}).get("Name") or ""
        return "" if name == "no" else str(name)

    @property
    def restarts(self) -> int:
        """How often that policy has started it again since somebody last did."""
        return int(self.inspected.get("RestartCount") or 0)

    @property
    def wants_gpus(self) -> bool:
        """Whether it was given GPUs, by a request or by NVIDIA's runtime."""
        host = self.inspected["HostConfig"]
        return bool(host.get("DeviceRequests")) or host.get("Runtime") == "nvidia"

    @property
    def removes_itself(self) -> bool:
        """Whether Docker removes it as soon as it has ended: `docker run --rm`."""
        return bool(self.inspected["HostConfig"].get("AutoRemove"))

    @property
    def has_log(self) -> bool:
        """Whether Docker keeps what it prints; of other drivers it keeps a copy to hand out."""
        driver = (self.inspected["HostConfig"].get("LogConfig") or {}).get("Type")
        return driver != "none"

    @property
    def network(self) -> str:
        """bridge, host, none, container:<id>, or the name of a network."""
        said = str(self.inspected["HostConfig"].get("NetworkMode") or "")
        return "bridge" if said in ("", "default") else said

    @property
    def exposed(self) -> tuple[int, ...]:
        """TCP ports that the container, or its image, names as its own, in their order."""
        named = self.inspected["Config"].get("ExposedPorts") or {}
        ports = {port.container_port for port in self.container.ports}
        return tuple(sorted(ports | {int(each.split("/")[0]) for each in named if _is_tcp(each)}))

    @property
    def ips(self) -> tuple[str, ...]:
        """Its own addresses on Docker's bridges, which its box can reach."""
        networks = (self.inspected.get("NetworkSettings") or {}).get("Networks") or {}
        found = (network.get("IPAddress") for network in networks.values() if network)
        return tuple(address for address in found if address)

    def is_life(self, started_at: datetime | None) -> bool:
        """Whether it runs since that moment, and has not been started anew."""
        return self.container.state == "running" and self.container.started_at == started_at

    def ways(self, port: int) -> tuple[tuple[str, int], ...]:
        """Addresses and ports at which the box reaches this port of it, the published first."""
        if not 0 < port < 65536:  # whatever its command says
            return ()
        if self.network == "host":
            return (("127.0.0.1", port),)
        published = [
            (_EVERYWHERE.get(each.host_ip, each.host_ip), each.host_port)
            for each in self.container.published
            if each.container_port == port and each.host_port
        ]
        return tuple(dict.fromkeys([*published, *((address, port) for address in self.ips)]))


class DockerReader(DockerClient):
    """What Docker Engine tells of containers, whoever made them. Nothing here changes anything."""

    install: str

    def others(
        self, known: Mapping[str, ExternalContainer] | None = None
    ) -> list[ExternalContainer]:
        """Those that run and are not of this install, the newest first. Raises ContainerError.

        `known` are those of an earlier look by their ids, to which nothing has happened since.
        """
        with translate_errors("a list of containers"):
            listed = self._api.containers()
        return self._inspect_theirs(listed, known or {}, MOST)

    def list_ended(self, known: Mapping[str, ExternalContainer]) -> list[ExternalContainer]:
        """Those that do not run and are not of this install, the newest first.

        `known` are those of an earlier look by their ids: what has ended stays as it is, until it
        is started again. Raises ContainerError.
        """
        with translate_errors("a list of containers"):
            listed = self._api.containers(all=True, filters={"status": list(_ENDED)})
        newest = sorted(listed, key=lambda each: int(each["Created"]), reverse=True)
        return self._inspect_theirs(newest, known, MOST_ENDED)

    def _inspect_theirs(
        self, listed: list[Json], known: Mapping[str, ExternalContainer], most: int
    ) -> list[ExternalContainer]:
        theirs = [each for each in listed if (each["Labels"] or {}).get(INSTALL) != self.install]
        found = (known.get(each["Id"]) or self.other(each["Id"]) for each in theirs[:most])
        return [each for each in found if each is not None]

    def count_images(self) -> tuple[int, int]:
        """How many images the box has, and their bytes; layers that several share count often.

        Raises ContainerError.
        """
        with translate_errors("a list of images"):
            images = self._api.images()
        return len(images), sum(int(each.get("Size") or 0) for each in images)

    def other(self, container_id: str) -> ExternalContainer | None:
        """One of them, running or not; None for ours, and where there is none of that id.

        Raises ContainerError.
        """
        found = self._inspect(container_id)
        if found is None or (found["Config"].get("Labels") or {}).get(INSTALL) == self.install:
            return None
        return ExternalContainer(container=Container.from_docker(found), inspected=found)

    def list_running(self) -> list[str]:
        """The ids of all containers that run on the box, whoever made them. Raises ContainerError."""
        with translate_errors("a list of containers"):
            return [each["Id"] for each in self._api.containers()]

    def tail(self, container_id: str, count: int, *, since: datetime | None = None) -> list[str]:
        """The last lines of the log, without timestamps. Raises ContainerError.

        `since` leaves out what an earlier life of the container has printed.
        """
        bound = int(since.timestamp()) if since else None
        with translate_errors("the container's log"):
            try:
                text: bytes = self._api.logs(container_id, tail=count, since=bound)
            except NotFound:
                return []
        return text.decode(errors="replace").splitlines()[-count:]

    def made_from(self, image: str) -> Json | None:
        """What Docker says of an image; None when it is not there. Raises ContainerError."""
        with translate_errors(f"a look at the image {image}"):
            try:
                found: Json = self._api.inspect_image(image)  # type: ignore[no-untyped-call]
            except NotFound:
                return None
        return found

    def was_told_to_end(
        self, container_id: str, *, began: datetime | None, ended: datetime
    ) -> bool | None:
        """Whether somebody had Docker send it a signal that asks for this end: `docker stop`, `kill`.

        None: Docker does not remember the end itself. It keeps its last 256 events or so, in memory
        (moby: daemon/events), so that this can be asked long after, by whoever was away. `began`
        and `ended` bound the life; None: its beginning is not known. Raises ContainerError.
        """
        since = max(filter(None, (began, ended - ASKED)))
        wanted = {"type": ["container"], "container": [container_id], "event": ["kill", "die"]}
        query = {
            "since": f"{since.timestamp():.6f}",
            "until": f"{time.time():.6f}",
            "filters": json.dumps(wanted),
        }
        path = f"/events?{urlencode(query)}"
        with (
            translate_errors("its events"),
            closing(DockerResponse(self.host, path, silence=_PAST_WITHIN)) as answer,
        ):
            events = [Event.from_docker(json.loads(line)) for line in answer.lines()]
        until = (ended + _LATE).timestamp()
        mine = [event for event in events if float(event.at) <= until]
        if any(event.action == "kill" and event.signal not in NO_WISH for event in mine):
            return True
        return False if any(event.action == "die" for event in mine) else None

    def happenings(self) -> EventStream:
        """What happens to containers, whoever made them, from now on. Raises ContainerError."""
        wanted: dict[str, Any] = {"type": ["container"], "event": list(_HAPPENINGS)}
        with translate_errors("its events"):
            query = urlencode({"filters": json.dumps(wanted)})
            return EventStream(DockerResponse(self.host, f"/events?{query}"))


def _is_tcp(port: str) -> bool:
    return port.partition("/")[2] in ("", "tcp")


GRACE = 60  # seconds between its stop signal and SIGKILL


class ExternalContainers(DockerReader):
    """Apart from Docker, which touches nothing without this install's label."""

    def __init__(self, install: str, host: str = "") -> None:
        super().__init__(host)
        self.install = install

    def stop(self, container_id: str, *, name: str, started_at: datetime | None) -> None:
        """As `docker stop` does; the container itself stays, with its log.

        `name` and `started_at` are what somebody has looked at and confirmed. Raises
        ContainerError, of the kind not_theirs where it is ours or something else by now.
        """
        found = self.other(container_id)
        if found is None or found.container.name != name or not found.is_life(started_at):
            raise ContainerError(
                f"{name} is not the container any more that was looked at: it was started anew, "
                "renamed or removed. Nothing was stopped.",
                kind="not_theirs",
            )
        with translate_errors(f"to stop {name}"):
            try:
                self._api.stop(container_id, timeout=GRACE)
            except NotFound:
                return
            except APIError as error:
                # It had ended by itself.
                if error.status_code != requests.codes.not_modified:
                    raise


class StartedError(Exception):
    """A process cannot be read; the text says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class StartedProcess:
    argv: tuple[str, ...] = field(repr=False)  # with secrets in it
    # None: it belongs to somebody else, and only root may read it.
    env: dict[str, str] | None = field(repr=False)
    folder: str  # where it runs now; "": that cannot be read
    user: str


def find_started_process(pid: int, *, start: int) -> StartedProcess:
    """What a process that began `start` clock ticks after the boot was started with.

    Raises StartedError where it has ended, or its number belongs to another one by now.
    Rule: proc(5).
    """
    now = Processes(Kernel(root=Path("/"))).read({pid})
    if not now or now[0].start != start:
        raise StartedError(f"Process {pid} has ended. What runs now is listed anew in a moment.")
    home = Path(f"/proc/{pid}")
    try:
        words = (home / "cmdline").read_bytes().decode(errors="replace")
    except OSError as error:
        raise StartedError(
            f"The words of process {pid} cannot be read: {error.strerror}."
        ) from error
    if not words:
        raise StartedError(
            f"Process {pid} shows no words: it begins or ends just now. Look again in a moment."
        )
    return StartedProcess(
        argv=tuple(words.rstrip("\0").split("\0")),
        env=_environment(home),
        folder=_folder(home),
        user=now[0].user or "",
    )


def _environment(home: Path) -> dict[str, str] | None:
    try:
        text = (home / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return None
    pairs = (each.partition("=") for each in text.split("\0") if "=" in each)
    return {name: value for name, _equals, value in pairs}


def _folder(home: Path) -> str:
    try:
        return paths.format_path((home / "cwd").readlink())
    except OSError:
        return ""

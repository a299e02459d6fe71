"""The only module that talks to Docker Engine. Used by the worker and the watcher alone."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, NotFound
from docker.types import DeviceRequest, LogConfig, Ulimit
from docker.types import Mount as DockerMount

from servers.host.docker_errors import ContainerError, translate
from servers.host.logstream import LogStream, LogStreamError
from servers.host.spec import Mount, Port, Spec

__all__ = [
    "Container",
    "ContainerError",
    "Docker",
    "Event",
    "Facts",
    "Image",
    "Mount",
    "Port",
    "Progress",
    "Spec",
]

DEFAULT_HOST = "unix:///var/run/docker.sock"
TIMEOUT = 60  # seconds; creating a container of a large image takes a while


@dataclass(frozen=True, kw_only=True)
class Image:
    id: str  # sha256:…
    digests: tuple[str, ...]  # empty for an image that was never in a registry
    size: int  # bytes
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Container:
    id: str
    name: str
    image_id: str
    state: str  # created, running, paused, restarting, removing, exited, dead
    pid: int | None
    exit_code: int | None  # None while it runs
    oom_killed: bool
    error: str  # Docker's own words on a start that failed
    started_at: datetime | None
    finished_at: datetime | None
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        return self.state in ("exited", "dead")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A pull so far, in bytes; total is None until Docker knows every layer's size."""

    done: int
    total: int | None


@dataclass(frozen=True, kw_only=True)
class Event:
    action: str  # create, start, die, oom, kill, destroy, …
    container_id: str
    run: int | None  # by its label


@dataclass(frozen=True, kw_only=True)
class Facts:
    version: str
    root: str  # where images lie
    runtimes: tuple[str, ...]


class Docker:
    """Docker Engine, with the containers of one install of inferdash.

    Whatever is changed must carry the label inferdash.install with this install's id:
    everything else on the box belongs to somebody else. Connects on first use; may be used
    from several threads.
    """

    def __init__(self, install: str, host: str = "") -> None:
        self.install = install
        self.host = host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
        self._clients = threading.local()

    @property
    def _api(self) -> docker.APIClient:
        client: docker.APIClient | None = getattr(self._clients, "client", None)
        if client is None:
            client = self._clients.client = self._connect()
        return client

    def _connect(self) -> docker.APIClient:
        return docker.APIClient(base_url=self.host, version="auto", timeout=TIMEOUT)

    def close(self) -> None:
        """Close this thread's connections; the next call opens new ones."""
        client: docker.APIClient | None = getattr(self._clients, "client", None)
        if client is not None:
            client.close()
            del self._clients.client

    def facts(self) -> Facts:
        """Raises ContainerError when the daemon is down or may not be used."""
        with _translated("a look at it"):
            info = self._api.info()
        return Facts(
            version=info["ServerVersion"],
            root=info["DockerRootDir"],
            runtimes=tuple(sorted(info.get("Runtimes", {}))),
        )

    def image(self, reference: str) -> Image | None:
        """The local image; None when this box does not have it. Raises ContainerError."""
        with _translated(f"a look at the image {reference}"):
            try:
                found = self._api.inspect_image(reference)  # type: ignore[no-untyped-call]
            except NotFound:
                return None
        config = found.get("Config") or {}
        return Image(
            id=found["Id"],
            digests=tuple(found.get("RepoDigests") or ()),
            size=found["Size"],
            entrypoint=tuple(config.get("Entrypoint") or ()),
            command=tuple(config.get("Cmd") or ()),
        )

    def pull(self, reference: str, tell: Callable[[Progress], bool]) -> None:
        """Pull an image. `tell` hears of progress and returns False to give up.

        Raises ContainerError, also when it was given up.
        """
        repository, tag = _split_reference(reference)
        layers: dict[str, tuple[int, int]] = {}
        with _translated(f"to pull {reference}"):
            for line in self._api.pull(repository, tag=tag, stream=True, decode=True):
                if "error" in line:
                    raise translate(line["error"], doing=f"to pull {reference}")
                detail = line.get("progressDetail") or {}
                if line.get("status") == "Downloading" and detail.get("total"):
                    layers[line["id"]] = (detail["current"], detail["total"])
                elif line.get("status") in ("Download complete", "Pull complete"):
                    _done, total = layers.get(line["id"], (0, 0))
                    layers[line["id"]] = (total, total)
                done = sum(layer[0] for layer in layers.values())
                total = sum(layer[1] for layer in layers.values())
                if not tell(Progress(done=done, total=total or None)):
                    raise ContainerError("The pull was given up.", kind="given_up")
        if self.image(reference) is None:
            raise ContainerError(f"{reference} was pulled but is not there.", kind="no_image")

    def run(self, spec: Spec) -> Container:
        """Create and start a container, or find ours of that name, started if need be.

        Raises ContainerError; then nothing is left behind.
        """
        container_id = self._create(spec)
        container = self.inspect(container_id)
        if container is not None and container.state != "created":
            return container
        try:
            self.start(container_id)
        except ContainerError:
            self.remove(container_id)
            raise
        container = self.inspect(container_id)
        if container is None:
            raise ContainerError("The container was removed as soon as it had started.")
        return container

    def start(self, container_id: str) -> None:
        self._check_ours(container_id)
        with _translated("to start the container"):
            self._api.start(container_id)

    def inspect(self, name_or_id: str) -> Container | None:
        """The container as it is now; None when there is none. Raises ContainerError."""
        with _translated("a look at the container"):
            try:
                found = self._api.inspect_container(name_or_id)
            except NotFound:
                return None
        state = found["State"]
        ended = state["Status"] in ("exited", "dead")
        return Container(
            id=found["Id"],
            name=found["Name"].lstrip("/"),
            image_id=found["Image"],
            state=state["Status"],
            pid=state["Pid"] or None,
            exit_code=state["ExitCode"] if ended else None,
            oom_killed=state["OOMKilled"],
            error=state["Error"],
            started_at=_time(state["StartedAt"]),
            finished_at=_time(state["FinishedAt"]) if ended else None,
            labels=found["Config"]["Labels"] or {},
        )

    def signal(self, container_id: str, name: str) -> None:
        """Send a signal: SIGTERM, SIGKILL. Raises ContainerError, also when it has ended."""
        self._check_ours(container_id)
        with _translated(f"to send {name}"):
            self._api.kill(container_id, name)

    def remove(self, container_id: str) -> None:
        """Remove one of our containers, running or not, with its anonymous volumes.

        One that is gone already is fine. Raises ContainerError.
        """
        if self._check_ours(container_id):
            with _translated("to remove the container"):
                try:
                    self._api.remove_container(container_id, v=True, force=True)
                except NotFound:
                    return

    def list_ours(self) -> list[Container]:
        """Every container of this install, running or not. Raises ContainerError."""
        with _translated("a list of containers"):
            found = self._api.containers(
                all=True, filters={"label": [f"inferdash.install={self.install}"]}
            )
        inspected = (self.inspect(each["Id"]) for each in found)
        return [container for container in inspected if container is not None]

    def events(self) -> Iterator[Event]:
        """What happens to our containers from now on, without end. Raises ContainerError."""
        filters = {"type": "container", "label": [f"inferdash.install={self.install}"]}
        with _translated("its events"), closing(self._connect()) as client:
            for event in client.events(filters=filters, decode=True):
                run = event["Actor"]["Attributes"].get("inferdash.run", "")
                yield Event(
                    action=event["Action"],
                    container_id=event["Actor"]["ID"],
                    run=int(run) if run.isdigit() else None,
                )

    def logs(self, container_id: str, *, since: str = "", follow: bool = False) -> LogStream:
        """The log's lines from `since` (an RFC 3339 timestamp of a line, inclusive).

        Never by attaching: a client that attached and stops reading blocks the container's
        output for good (measured on Docker 20.10). Raises ContainerError here, and
        LogStreamError while it is read.
        """
        try:
            return LogStream(
                self.host,
                container_id,
                since=_unix_time(since) if since else "",
                follow=follow,
            )
        except LogStreamError as error:
            raise translate(str(error), doing="the container's log") from error

    def tail(self, container_id: str, count: int) -> list[str]:
        """The last lines of the log, without timestamps. Raises ContainerError."""
        with _translated("the container's log"):
            try:
                text: bytes = self._api.logs(container_id, tail=count)
            except NotFound:
                return []
        return text.decode(errors="replace").splitlines()[-count:]

    def _create(self, spec: Spec) -> str:
        with _translated("to create the container"):
            try:
                made = self._api.create_container(
                    image=spec.image,
                    command=list(spec.command),
                    name=spec.name,
                    entrypoint=list(spec.entrypoint) if spec.entrypoint else None,
                    environment=spec.env,
                    labels=spec.labels,
                    ports=[port.container_port for port in spec.ports],
                    user=spec.user or None,
                    working_dir=spec.workdir or None,
                    host_config=self._host_config(spec),
                )
            except APIError as error:
                if error.status_code != requests.codes.conflict:
                    raise
                return self._ours_of_that_name(spec, error)
        container_id: str = made["Id"]
        return container_id

    def _ours_of_that_name(self, spec: Spec, error: APIError) -> str:
        """The container that an earlier attempt at the same run made."""
        existing = self.inspect(spec.name)
        if existing is None or any(
            existing.labels.get(label) != spec.labels.get(label)
            for label in ("inferdash.install", "inferdash.run")
        ):
            raise error
        return existing.id

    def _host_config(self, spec: Spec) -> Any:
        return self._api.create_host_config(
            port_bindings={
                port.container_port: (port.host_ip, port.host_port or None) for port in spec.ports
            },
            mounts=[
                DockerMount(
                    target=mount.target,
                    source=mount.source,
                    type=mount.kind,
                    read_only=mount.read_only,
                )
                for mount in spec.mounts
            ],
            network_mode=spec.network,
            ipc_mode=spec.ipc or None,
            pid_mode=spec.pid or None,
            shm_size=spec.shm_size,
            mem_limit=spec.memory,
            ulimits=[Ulimit(name=k, soft=v, hard=v) for k, v in spec.ulimits.items()],
            device_requests=_device_requests(spec),
            runtime=spec.runtime or None,
            cap_add=list(spec.cap_add),
            privileged=spec.privileged,
            cpuset_cpus=spec.cpuset_cpus or None,
            devices=list(spec.devices),
            security_opt=list(spec.security_opt),
            init=spec.init,
            restart_policy={"Name": spec.restart},
            log_config=LogConfig(
                type=LogConfig.types.JSON,
                config={"max-size": spec.log_max_size, "max-file": str(spec.log_max_files)},
            ),
        )

    def _check_ours(self, container_id: str) -> bool:
        """Whether the container is there. Raises ContainerError for somebody else's."""
        container = self.inspect(container_id)
        if container is None:
            return False
        if container.labels.get("inferdash.install") != self.install:
            raise ContainerError(
                f"The container {container.name} was not made by this inferdash, so it is not touched.",
                kind="not_ours",
            )
        return True


def _device_requests(spec: Spec) -> list[DeviceRequest]:
    if spec.gpus == "none":
        return []
    capabilities = [list(spec.gpu_capabilities)]
    if spec.gpus == "all":
        return [DeviceRequest(count=-1, capabilities=capabilities)]
    return [DeviceRequest(device_ids=spec.gpus.split(","), capabilities=capabilities)]


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    try:
        yield
    except APIError as error:
        raise translate(str(error.explanation or error), doing=doing) from error
    except (DockerException, requests.RequestException) as error:
        raise translate(str(error), doing=doing) from error


def _split_reference(reference: str) -> tuple[str, str]:
    """Repository and tag; docker-py pulls every tag when it gets none."""
    if "@" in reference:
        repository, _at, digest = reference.partition("@")
        return repository, digest
    repository, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:
        return reference, "latest"
    return repository, tag


def _time(text: str) -> datetime | None:
    """Docker's timestamp; None for its zero value."""
    if text.startswith("0001-"):
        return None
    # Nanoseconds are more than datetime holds.
    head, _dot, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{head}.{fraction[:6] or '0'}").replace(tzinfo=UTC)


def _unix_time(timestamp: str) -> str:
    """seconds.nanoseconds, exactly: a float would round to the wrong line."""
    head, _dot, fraction = timestamp.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(head).replace(tzinfo=UTC).timestamp())
    return f"{seconds}.{fraction.ljust(9, '0')[:9]}"

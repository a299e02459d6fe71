"""Operations on containers. Used by the worker and the watcher alone."""

import io
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlencode

import requests

from servers.host.docker.client import (
    APIError,
    DockerResponse,
    EventStream,
    NotFound,
    RegistryAuth,
    creation,
    translate_errors,
)
from servers.host.docker.facts import (
    Container,
    ContainerError,
    DockerFacts,
    Event,
    Image,
    port_taken,
    split_reference,
    translate,
    unix_time,
)
from servers.host.images.images import Builds
from servers.host.kernel.processes import listener
from servers.host.logs import LogStream, LogStreamError
from servers.launch import numbers
from servers.launch.spec import Mount, Port, Spec

__all__ = [
    "Container",
    "ContainerError",
    "DockerContainers",
    "Event",
    "EventStream",
    "DockerFacts",
    "Image",
    "RegistryAuth",
    "Mount",
    "Port",
    "Spec",
]

NOTHING = "inferdash/nothing:1"  # an empty image, to try options with
QUESTION = "inferdash.question"  # the label of a container that only asks an image something
# Together they name the one container of a run: its number alone is given again by a database
# that was restored from yesterday.
IDENTITY = ("inferdash.install", "inferdash.run", "inferdash.asked")


class DockerContainers(Builds):
    """Docker Engine, with the containers of one install of inferdash.

    Whatever is changed must carry the label inferdash.install with this install's id:
    everything else on the box belongs to somebody else. Connects on first use; may be used
    from several threads.
    """

    def __init__(
        self, install: str, host: str = "", logins: Callable[[], list[RegistryAuth]] | None = None
    ) -> None:
        super().__init__(host, logins)
        self.install = install

    def facts(self) -> DockerFacts:
        """Raises ContainerError when the daemon is down or may not be used."""
        with translate_errors("a look at it"):
            return DockerFacts.from_docker(self._api.info())

    def run(self, spec: Spec) -> Container:
        """Create and start a container, or find the one of these labels, started if need be.

        Raises ContainerError; then nothing is left behind, unless Docker goes away meanwhile or
        somebody else is making it: an error that is undecided.
        """
        container = self.find(spec.labels)
        container_id = container.id if container is not None else self.create(spec)
        container = self.inspect(container_id)
        if container is not None and container.state != "created":
            return container
        try:
            self.start(container_id)
        except ContainerError as error:
            if error.is_undecided:
                raise
            self._clean_up(container_id, error)
            if error.kind == "port_taken":
                raise self._name_port_holder(error, spec) from error
            raise
        container = self.inspect(container_id)
        if container is None:
            raise ContainerError(
                "The container was removed as soon as it had started.", kind="no_container"
            )
        return container

    def refusal(self, spec: Spec) -> ContainerError | None:
        """Why this box takes no container with these options; None when it does.

        Tried with an empty image, whatever the spec's: no program runs, nothing is left.
        Raises ContainerError when the box cannot be asked.
        """
        trial = replace(
            spec,
            image=self.ensure_empty_image(),
            entrypoint=("/nothing",),
            command=(),
            init=False,  # it would start, and only then miss the program
            name="",
            labels={"inferdash.install": self.install},
        )
        made = None
        try:
            made = self.create(trial)
            self.start(made)
        except ContainerError as error:
            if error.kind in ("daemon_down", "no_permission", "timeout"):
                raise
            return None if error.kind == "no_program" else error
        finally:
            if made is not None:
                self.remove(made)
        return None

    def start(self, container_id: str) -> None:
        self._check_ours(container_id)
        with translate_errors("to start the container"):
            self._api.start(container_id)

    def inspect(self, name_or_id: str) -> Container | None:
        """The container as it is now; None when there is none. Raises ContainerError."""
        found = self._inspect(name_or_id)
        return Container.from_docker(found) if found is not None else None

    def signal(self, container_id: str, name: str) -> None:
        """Send a signal: SIGTERM, SIGKILL.

        Raises ContainerError, of the kind not_running or no_container when it has ended.
        """
        self._check_ours(container_id)
        with translate_errors(f"to send {name}"):
            self._api.kill(container_id, name)

    def remove(self, container_id: str) -> None:
        """Remove one of our containers, running or not, with its anonymous volumes.

        One that is gone already is fine. Raises ContainerError.
        """
        if self._check_ours(container_id):
            with translate_errors("to remove the container"):
                try:
                    self._api.remove_container(container_id, v=True, force=True)
                except NotFound:
                    return
                except APIError as error:
                    # Somebody else's removal is as good.
                    if error.status_code != requests.codes.conflict:
                        raise

    def list_ours(self) -> list[Container]:
        """Every container of this install, running or not, but for throw-away ones.

        Raises ContainerError.
        """
        with translate_errors("a list of containers"):
            found = self._api.containers(
                all=True, filters={"label": [f"inferdash.install={self.install}"]}
            )
        engines = (each for each in found if QUESTION not in each["Labels"])
        inspected = (self.inspect(each["Id"]) for each in engines)
        return [container for container in inspected if container is not None]

    def find(self, labels: dict[str, str]) -> Container | None:
        """The container of the run that these labels name; None without one.

        Raises ContainerError.
        """
        if not labels.keys() >= set(IDENTITY):
            return None
        wanted = [f"{key}={value}" for key, value in _identity(labels).items()]
        with translate_errors("a list of containers"):
            found = self._api.containers(all=True, filters={"label": wanted})
        return self.inspect(found[0]["Id"]) if found else None

    def live_runs(self) -> dict[int, str]:
        """The newest container of each run's number that has not ended. Raises ContainerError."""
        wanted = {
            "label": [f"inferdash.install={self.install}", "inferdash.run"],
            "status": ["created", "running", "paused"],
        }
        with translate_errors("a list of containers"):
            found = self._api.containers(all=True, filters=wanted)
        labels = ((each["Labels"]["inferdash.run"], each["Id"]) for each in reversed(found))
        return {n: made for label, made in labels if (n := numbers.whole(label)) is not None}

    def keep_kernels(self, image_id: str) -> str:
        """The volume for the kernels that engines of this image compile; made if need be.

        One an image id: one shared by all images would serve stale kernels, none would
        compile them anew on every start. Raises ContainerError.
        """
        name = kernels_volume(image_id)
        labels = {"inferdash.install": self.install, "inferdash.image": image_id}
        with translate_errors("to make a volume"):
            self._api.create_volume(name, labels=labels)
        return name

    def keep_volume(self, name: str) -> bool:
        """Make a volume for profiles if there is none of the name; whether it is such a one.

        False for volumes of others, of kernels, and with options: those may stand for any
        folder of the box. Raises ContainerError.
        """
        labels = {"inferdash.install": self.install, "inferdash.volume": name}
        with translate_errors(f"to make the volume {name}"):
            found = self._api.create_volume(name, labels=labels)
        return found["Labels"] == labels and not found["Options"]

    def drop_orphaned_kernels(self) -> list[str]:
        """Remove the kernels of images that this box no longer has; their names.

        Raises ContainerError.
        """
        dropped = []
        with translate_errors("a look at volumes"):
            filters = {"label": [f"inferdash.install={self.install}"]}
            for volume in self._api.volumes(filters=filters)["Volumes"] or []:
                image_id = volume["Labels"].get("inferdash.image", "")
                if image_id and self.image(image_id) is None:
                    self._api.remove_volume(volume["Name"])
                    dropped.append(volume["Name"])
        return dropped

    def processes(self, container_id: str) -> list[int]:
        """Process ids on the box; none when it does not run. Raises ContainerError."""
        try:
            with translate_errors("a look at the container's processes"):
                found = self._api.top(container_id, ps_args="-o pid")
        except ContainerError as error:
            if error.kind in ("not_running", "no_container"):
                return []
            raise
        return [int(row[0]) for row in found["Processes"] or ()]

    def events(self, *, since: str = "") -> EventStream:
        """What happens to our containers from now on, or from after the event at `since`.

        Docker remembers some 256 events. Raises ContainerError.
        """
        label = f'{{"type":["container"],"label":["inferdash.install={self.install}"]}}'
        # Docker answers before it listens: what happens in between is in its memory.
        since = since or f"{time.time():.6f}"
        with translate_errors("its events"):
            query = urlencode({"since": since, "filters": label})
            return EventStream(DockerResponse(self.host, f"/events?{query}"))

    def logs(
        self,
        container_id: str,
        *,
        since: str = "",
        follow: bool = False,
        has_terminal: bool = False,
        with_rest: bool | None = None,
    ) -> LogStream:
        """The log's lines from `since` (an RFC 3339 timestamp of a line, inclusive).

        What has no newline is handed out where the log is not followed, or as with_rest says.

        Never by attaching: a client that attached and stops reading blocks the container's
        output for good (measured on Docker 20.10). Raises ContainerError here, and
        LogStreamError while it is read.
        """
        try:
            since = unix_time(since) if since else ""
            return LogStream(
                self.host,
                container_id,
                since=since,
                follow=follow,
                has_terminal=has_terminal,
                with_rest=with_rest,
            )
        except LogStreamError as error:
            raise translate(str(error), doing="the container's log") from error

    def create(self, spec: Spec) -> str:
        """The id of a container that does not run yet. Raises ContainerError."""
        with translate_errors("to create the container"):
            try:
                made = self._api.create_container(**creation(spec))
            except APIError as error:
                if error.status_code != requests.codes.conflict:
                    raise
                return self._ours_of_that_name(spec, error)
        container_id: str = made["Id"]
        return container_id

    def _ours_of_that_name(self, spec: Spec, error: APIError) -> str:
        """The container that an earlier attempt at the same run made."""
        existing = self.inspect(spec.name) if spec.name else None
        if existing is None:
            # Docker gives away the name first. Whoever asked for it may be dead by now.
            raise ContainerError(
                "Docker is still making the container that was asked for before.",
                kind="name_reserved",
            )
        if _identity(existing.labels) != _identity(spec.labels):
            raise error
        return existing.id

    def _clean_up(self, container_id: str, reason: ContainerError) -> None:
        try:
            self.remove(container_id)
        except ContainerError as error:
            reason.add_note(f"The container could not be removed either: {error}")

    def _name_port_holder(self, error: ContainerError, spec: Spec) -> ContainerError:
        """The same error, saying who has the port where that can be found out."""
        with translate_errors("a list of containers"):
            running = self._api.containers()
        publishing = {
            published.get("PublicPort"): found["Names"][0].lstrip("/")
            for found in running
            for published in found["Ports"]
        }
        for port in spec.ports:
            if port.host_port in publishing:
                return port_taken(
                    port.host_port, f"the container {publishing[port.host_port]}", error
                )
            program = listener(port.host_port)
            if program is not None:
                return port_taken(port.host_port, program, error)
        return error

    def ensure_empty_image(self) -> str:
        """An image with no file in it; made if need be. Raises ContainerError."""
        if self.image(NOTHING) is not None:
            return NOTHING
        empty = io.BytesIO()
        tarfile.open(fileobj=empty, mode="w").close()
        repository, tag = split_reference(NOTHING)
        with translate_errors("an empty image"):
            self._api.import_image_from_data(empty.getvalue(), repository, tag)
        return NOTHING

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


def kernels_volume(image_id: str) -> str:
    """What keep_kernels calls it; without an image the beginning of every one's name."""
    return f"inferdash-kernels-{image_id.removeprefix('sha256:')[:12]}".removesuffix("-")


def _identity(labels: dict[str, str]) -> dict[str, str]:
    return {name: labels[name] for name in IDENTITY if name in labels}

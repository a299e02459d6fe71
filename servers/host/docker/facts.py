"""Descriptions by Docker of itself, images, containers and events, and its errors as sentences."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from servers.launch import numbers
from servers.launch.spec import Mount, Port

# Docker's JSON.
type Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DockerFacts:
    version: str
    root: str  # where images lie
    runtimes: tuple[str, ...]
    system: str  # "Ubuntu 24.04.2 LTS"
    architecture: str  # x86_64, aarch64
    # Whether layers of a pull that was cut off stay: containerd keeps them for a day, Docker's own
    # store (overlay2) drops whatever is no whole image yet (measured on 20.10).
    keeps_layers: bool = False
    counts_processes: bool = True  # whether a container can be held to a number of them

    @classmethod
    def from_docker(cls, info: Json) -> "DockerFacts":
        return cls(
            keeps_layers="io.containerd.snapshotter" in str(info.get("DriverStatus") or ""),
            counts_processes=info.get("PidsLimit", True),
            version=info["ServerVersion"],
            root=info["DockerRootDir"],
            runtimes=tuple(sorted(info.get("Runtimes") or {})),
            system=info.get("OperatingSystem", ""),
            architecture=info.get("Architecture", ""),
        )


@dataclass(frozen=True, kw_only=True)
class Image:
    id: str  # sha256:…
    digests: tuple[str, ...]  # empty for an image that was never in a registry
    size: int  # bytes
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    created_at: datetime | None = None
    env: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()  # folders that get a volume each unless something is mounted
    on_build: tuple[str, ...] = ()  # instructions that each build on it begins with
    architecture: str = ""  # amd64, arm64; "" where Docker does not tell

    @classmethod
    def from_docker(cls, found: Json) -> "Image":
        config = found.get("Config") or {}
        return cls(
            id=found["Id"],
            digests=tuple(found.get("RepoDigests") or ()),
            size=found["Size"],
            entrypoint=tuple(config.get("Entrypoint") or ()),
            command=tuple(config.get("Cmd") or ()),
            created_at=_time(found.get("Created") or ""),
            env=dict(text.partition("=")[::2] for text in config.get("Env") or ()),
            labels=config.get("Labels") or {},
            volumes=tuple(config.get("Volumes") or ()),
            on_build=tuple(config.get("OnBuild") or ()),
            architecture=found.get("Architecture") or "",
        )


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
    env: dict[str, str] = field(default_factory=dict, repr=False)  # with its secrets
    ports: tuple[Port, ...] = ()  # as published now; as asked for while none are
    published: tuple[Port, ...] = ()  # as published now
    mounts: tuple[Mount, ...] = ()
    ended_before: datetime | None = None  # while it runs: the end of its life before this one
    has_terminal: bool = False  # `docker run -t`: its log is one raw stream

    @property
    def has_ended(self) -> bool:
        return self.state in ("exited", "dead")

    @classmethod
    def from_docker(cls, found: Json) -> "Container":
        state = found["State"]
        ended = state["Status"] in ("exited", "dead")
        started, finished = _time(state["StartedAt"]), _time(state["FinishedAt"])
        if started and finished:
            # Docker can note the end of a very short life before its beginning.
            finished = max(started, finished)
        published = (found.get("NetworkSettings") or {}).get("Ports")
        return cls(
            id=found["Id"],
            name=found["Name"].lstrip("/"),
            image_id=found["Image"],
            state=state["Status"],
            pid=state["Pid"] or None,
            exit_code=state["ExitCode"] if ended else None,
            oom_killed=state["OOMKilled"],
            error=state["Error"],
            started_at=started,
            finished_at=finished if ended else None,
            labels=found["Config"]["Labels"] or {},
            env=dict(text.partition("=")[::2] for text in found["Config"]["Env"] or ()),
            published=_ports(published or {}),
            ports=_ports(published or found["HostConfig"].get("PortBindings") or {}),
            mounts=tuple(
                Mount(
                    source=mount.get("Name") or mount["Source"],
                    target=mount["Destination"],
                    read_only=not mount["RW"],
                    kind=mount["Type"],
                )
                for mount in found.get("Mounts") or ()
                if mount["Type"] in ("bind", "volume")
            ),
            ended_before=None if ended else _time(state["FinishedAt"]),
            has_terminal=bool(found["Config"].get("Tty")),
        )


@dataclass(frozen=True, kw_only=True)
class Event:
    action: str  # create, start, die, oom, kill, destroy, …
    container_id: str
    run: int | None  # by its label
    at: str = ""  # unix time, seconds.nanoseconds
    exit_code: int | None = None  # of a "die"
    signal: int | None = None  # of a "kill"

    @classmethod
    def from_docker(cls, found: Json) -> "Event":
        attributes = found["Actor"].get("Attributes") or {}
        run, code = attributes.get("inferdash.run", ""), attributes.get("exitCode", "")
        signal = attributes.get("signal", "")
        seconds, nanoseconds = divmod(found["timeNano"], 10**9)
        return cls(
            action=found["Action"],
            container_id=found["Actor"]["ID"],
            run=numbers.whole(run),
            at=f"{seconds}.{nanoseconds:09}",
            exit_code=numbers.whole(code),
            signal=numbers.whole(signal),
        )


def unix_time(timestamp: str) -> str:
    """seconds.nanoseconds of an RFC 3339 time in UTC, exactly: a float would round."""
    head, _dot, fraction = timestamp.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(head).replace(tzinfo=UTC).timestamp())
    return f"{seconds}.{fraction.ljust(9, '0')[:9]}"


def split_reference(reference: str) -> tuple[str, str]:
    """Repository and tag or digest; Docker would pull every tag when it gets none."""
    if "@" in reference:
        repository, _at, digest = reference.partition("@")
        return repository, digest
    repository, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:
        return reference, "latest"
    return repository, tag


def _ports(found: Json) -> tuple[Port, ...]:
    return tuple(
        Port(
            container_port=int(port.partition("/")[0]),
            # Asked for as a range, "8000-8010", it is one of them only once it is published.
            host_port=int(said) if (said := binding["HostPort"]).isdecimal() else 0,
            host_ip=binding["HostIp"],
        )
        for port, bindings in found.items()
        for binding in bindings or ()
    )


def _time(text: str) -> datetime | None:
    """Docker's timestamp; None for its zero value."""
    if not text or text.startswith("0001-"):
        return None
    # Nanoseconds are more than datetime holds before Python reads them by itself.
    return datetime.fromisoformat(text)


# Texts of Docker Engine 20.10 to 29; the first match wins.
_KNOWN: list[tuple[str, str, str]] = [
    (
        r"could not select device driver|no known GPU vendor",
        "no_gpu_driver",
        "Docker on this box cannot give GPUs to containers. Install the NVIDIA Container Toolkit "
        "and run `sudo nvidia-ctk runtime configure --runtime=docker`, then restart Docker.",
    ),
    (
        r"nvidia-container-cli: device error: (?P<what>[^:]+): unknown device"
        r"|unresolvable CDI devices (?P<what2>\S+)",
        "no_such_gpu",
        "This box has no GPU {what}. `nvidia-smi -L` lists them; choose others in the profile.",
    ),
    (
        r"nvidia-container-cli|libnvidia-ml\.so",
        "no_gpu_driver",
        "The NVIDIA driver of this box does not answer. Run `nvidia-smi` there: if it fails too, "
        "the driver is missing or needs a reboot.",
    ),
    (
        r"port is already allocated|address already in use|failed to bind (?:host )?port",
        "port_taken",
        "The port is taken on this box. Choose another one in the profile, or stop what uses it.",
    ),
    (
        r"bind source path does not exist: (?P<what>\S+)",
        "missing_mount",
        "{what} does not exist on this box. Create it, or change the profile's volumes.",
    ),
    (
        r"rlimit",
        "rlimit",
        "This box does not grant a limit that the profile sets under ulimits, most often memlock. "
        "Remove it from the profile, or raise the limit of the Docker service.",
    ),
    (
        r"unknown or invalid runtime name:? ?(?P<what>\S*)|Unknown runtime specified (?P<what2>\S+)",
        "unknown_runtime",
        "Docker on this box has no runtime {what}. Leave the profile's runtime empty, or install "
        "it; `docker info` lists those that are there.",
    ),
    (
        r"gathering device information while adding custom device \"(?P<what>[^\"]+)\"",
        "no_device",
        "This box has no device {what}. Remove it from the profile's devices.",
    ),
    (
        r"exec format error",
        "wrong_platform",
        "The image's programs are made for another processor. Choose a tag for this box's.",
    ),
    (
        r"exec: \"(?P<what>[^\"]+)\"|executable file not found",
        "no_program",
        "The image does not contain the program {what}, or it cannot be run. Check that the "
        "engine fits the image, and the profile's entrypoint.",
    ),
    (
        r"image is being used by|image has dependent child images|image is referenced in",
        "image_in_use",
        "The image is still used: by a container, or by another image that was made from it. "
        "Remove those first.",
    ),
    (
        r"no basic auth credentials|authentication required",
        "pull_denied",
        "The registry requires credentials for this image. An admin can add them under Images.",
    ),
    (
        r"toomanyrequests",
        "rate_limit",
        "The registry limits pulls without an account. Wait an hour, let an admin add "
        "credentials under Images, or run `docker login` on the box.",
    ),
    (
        r"manifest unknown|manifest for \S+ not found|not found: manifest",
        "no_image",
        "The registry has no such tag. Check the image's tag in the profile.",
    ),
    (
        r"pull access denied|repository does not exist|insufficient_scope|unauthorized"
        r"|requested access to the resource is denied",
        "pull_denied",
        "The registry has no such image, or requires credentials for it. Check the name, let an "
        "admin add credentials under Images, or run `docker login` on the box.",
    ),
    (
        r"no matching manifest for (?P<what>\S+)",
        "wrong_platform",
        "This image is not made for {what}. Choose a tag for this box's processor.",
    ),
    (
        r"no space left on device",
        "disk_full",
        "The disk of Docker is full. `docker system df` shows what uses it, `docker image prune` "
        "removes images without a name.",
    ),
    (
        r"network (?P<what>\S+) not found",
        "no_network_named",
        "Docker on this box has no network {what}. `docker network ls` lists them; choose one in "
        "the profile, or create it.",
    ),
    (
        r"[Nn]o such container",
        "no_container",
        "The container is gone: somebody removed it.",
    ),
    (
        r"is not running|is already stopped",
        "not_running",
        "The container does not run any more.",
    ),
    (
        r"[Nn]o such image:? ?(?P<what>\S*)",
        "no_image",
        "The image {what} is not on this box. Start the server again: it is pulled then.",
    ),
    (
        r"invalid reference format|repository name must be lowercase|Invalid (?:index|repository) name"
        r"|Repository name cannot",
        "bad_reference",
        "The image's name cannot be one. It is written like registry.example/team/engine:tag, in "
        "small letters; correct it in the profile.",
    ),
    (
        r"container name \"/?(?P<what>[^\"]+)\" is already in use",
        "name_taken",
        "There is a container {what} that is not ours. Rename it, or remove it: "
        "`docker rm {what}`.",
    ),
    (
        r"PermissionError|Permission denied"
        r"|permission denied while trying to connect to the [Dd]ocker",
        "no_permission",
        "inferdash may not use Docker on this box. Add its user to the group docker, "
        "`sudo usermod -aG docker $USER`, log in anew and restart inferdash.",
    ),
    (
        r"No such file or directory|Connection refused|Connection reset|Broken pipe"
        r"|Remote end closed|closed the connection without|Cannot connect to the Docker daemon",
        "daemon_down",
        "Docker Engine does not answer on this box. Start it, `sudo systemctl start docker`, or "
        "install it: the package docker.io or docker-ce.",
    ),
    (
        r"lookup |dial tcp|TLS handshake|request canceled|i/o timeout|connection refused"
        r"|server gave HTTP response|connection reset by peer",
        "no_network",
        "The registry cannot be reached from this box. Check its network, or load the image with "
        "`docker load`.",
    ),
    (
        r"[Tt]imed out|[Tt]imeout",
        "timeout",
        "Docker did not answer in time. The box may be very busy: look at its load and its disks, "
        "then try again.",
    ),
]


class ContainerError(Exception):
    """What Docker refused, as a sentence for a person. `detail` is Docker's own text."""

    def __init__(self, sentence: str, *, kind: str = "other", detail: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind
        self.detail = detail

    @property
    def is_outage(self) -> bool:
        """Whether Docker cannot be used at all, whatever was tried."""
        return self.kind in ("daemon_down", "no_permission")

    @property
    def is_undecided(self) -> bool:
        """Whether Docker may have done it all the same, or may still do it."""
        return self.kind in ("daemon_down", "timeout", "name_reserved")


def translate(text: str, *, doing: str) -> ContainerError:
    """The error for Docker's text. `doing` says what was tried, for texts that are not known.

    Kinds are the second column above, "other" for a text that is in none of them.
    """
    for pattern, kind, sentence in _KNOWN:
        match = re.search(pattern, text)
        if match is not None:
            what = next((group for group in match.groupdict().values() if group), "")
            return ContainerError(
                sentence.format(what=what.strip("\"',.") or "of that name"), kind=kind, detail=text
            )
    return ContainerError(
        f"Docker refused {doing}: {text.strip() or 'no reason given'}", detail=text
    )


def port_taken(port: int, by: str, error: ContainerError) -> ContainerError:
    """The same error with the name of what has the port."""
    return ContainerError(
        f"Port {port} of this box is taken by {by}. Choose another one in the profile, or stop "
        "what uses it.",
        kind=error.kind,
        detail=error.detail,
    )

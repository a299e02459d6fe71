"""Docker's descriptions of itself, of images, containers and events."""

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
    cgroup_driver: str  # cgroupfs, systemd or none
    cgroup_version: str  # "1" or "2"; empty before Docker 20.10
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
            cgroup_driver=info.get("CgroupDriver", ""),
            cgroup_version=info.get("CgroupVersion", ""),
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

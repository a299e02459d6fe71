"""A container as we ask for it: everything of `docker run` that recipes use."""

import shlex
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from servers.launch.numbers import format_size


@dataclass(frozen=True, kw_only=True)
class Mount:
    source: str  # an absolute path on the box, or a volume's name
    target: str
    read_only: bool = False
    kind: Literal["bind", "volume"] = "bind"


@dataclass(frozen=True, kw_only=True)
class Port:
    container_port: int
    host_port: int  # 0 = any free one
    host_ip: str = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Empty, None and 0 mean Docker's own default."""

    image: str
    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    ports: tuple[Port, ...] = ()
    network: str = "bridge"
    ipc: str = ""
    pid: str = ""
    shm_size: int | None = None  # bytes
    ulimits: dict[str, int] = field(default_factory=dict)  # soft = hard; -1 = unlimited
    gpus: str = "none"  # "all", "none", "count=2", or indices and UUIDs: "0,1"
    gpu_capabilities: tuple[str, ...] = ("gpu",)
    runtime: str = ""
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    privileged: bool = False
    cpuset_cpus: str = ""
    devices: tuple[str, ...] = ()  # host[:container[:permissions]]
    security_opt: tuple[str, ...] = ()
    group_add: tuple[str, ...] = ()
    hostname: str = ""
    extra_hosts: tuple[str, ...] = ()  # name:address
    tmpfs: tuple[str, ...] = ()  # folder[:options]
    stop_signal: str = ""
    user: str = ""
    workdir: str = ""
    init: bool = True
    restart: str = "no"  # inferdash restarts, not Docker
    memory: int | None = None  # bytes
    pids_limit: int | None = None  # processes and threads together
    # A chatty engine must not fill the disk.
    log_max_size: str = "100m"
    log_max_files: int = 3

    def docker_run(self, *, mask: Collection[str] = ()) -> str:
        """The same as a `docker run` command, one option a line.

        Variables named in `mask` appear without their value: Docker then takes it from the
        environment of whoever runs the command.
        """
        entrypoint, *entry_arguments = self.entrypoint or ("",)
        options = [
            ("--name", self.name),
            *(("--label", f"{key}={value}") for key, value in self.labels.items()),
            ("--init", self.init),
            ("--gpus", self._gpus_option()),
            ("--runtime", self.runtime),
            ("--network", "" if self.network == "bridge" else self.network),
            *(("-p", _port_option(port)) for port in self.ports),
            ("--ipc", self.ipc),
            ("--pid", self.pid),
            ("--shm-size", _size(self.shm_size)),
            ("--memory", _size(self.memory)),
            ("--pids-limit", self.pids_limit),
            *(("--ulimit", f"{name}={value}") for name, value in self.ulimits.items()),
            *(("--cap-add", name) for name in self.cap_add),
            *(("--cap-drop", name) for name in self.cap_drop),
            ("--privileged", self.privileged),
            ("--cpuset-cpus", self.cpuset_cpus),
            *(("--device", device) for device in self.devices),
            *(("--security-opt", option) for option in self.security_opt),
            *(("--group-add", group) for group in self.group_add),
            ("--hostname", self.hostname),
            *(("--add-host", host) for host in self.extra_hosts),
            *(("--tmpfs", folder) for folder in self.tmpfs),
            ("--stop-signal", self.stop_signal),
            ("--restart", "" if self.restart == "no" else self.restart),
            ("--user", self.user),
            ("--workdir", self.workdir),
            *(("--mount", _mount_option(mount)) for mount in self.mounts),
            *(
                ("-e", name if name in mask else f"{name}={value}")
                for name, value in self.env.items()
            ),
            ("--log-opt", f"max-size={self.log_max_size}"),
            ("--log-opt", f"max-file={self.log_max_files}"),
            ("--entrypoint", entrypoint),
        ]
        rows = [
            flag if value is True else f"{flag} {_quote(str(value))}"
            for flag, value in options
            if value
        ]
        lines = [[self.image, *entry_arguments]]
        for word in self.command:
            # An engine's flags are read one below the other, as Docker's are.
            if word.startswith("--"):
                lines.append([])
            lines[-1].append(word)
        return " \\\n  ".join(["docker run -d", *rows, *map(shlex.join, lines)])

    @property
    def gpu_count(self) -> int:
        """How many GPUs, whichever; 0 when they are all, none or chosen."""
        return int(self.gpus.removeprefix("count=")) if self.gpus.startswith("count=") else 0

    def _gpus_option(self) -> str:
        if self.gpus == "none":
            return ""
        # Comma-separated values, so that one with commas stands in double quotes.
        chosen = self.gpus != "all" and not self.gpu_count
        wanted = f'"device={self.gpus}"' if chosen else self.gpus
        extra = [name for name in self.gpu_capabilities if name != "gpu"]
        return ",".join([wanted, *([f'"capabilities={",".join(extra)}"'] if extra else [])])


def _quote(word: str) -> str:
    """One word for bash, on one line also where it contains a newline."""
    if "\n" not in word:
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"$'{escaped}'"


def _size(count: int | None) -> str:
    return format_size(count) if count else ""


def _port_option(port: Port) -> str:
    address = f"[{port.host_ip}]" if ":" in port.host_ip else port.host_ip
    return f"{address}:{port.host_port or ''}:{port.container_port}"


def _mount_option(mount: Mount) -> str:
    # Unlike -v, --mount refuses a source that does not exist.
    text = f"type={mount.kind},source={mount.source},target={mount.target}"
    return f"{text},readonly" if mount.read_only else text

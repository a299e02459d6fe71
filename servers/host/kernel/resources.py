"""Host resources that starts need: disks, ports, cgroups, page cache, clock, NVIDIA's toolkit."""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from servers.host.docker import throwaway
from servers.host.docker.containers import ContainerError, DockerContainers
from servers.host.docker.throwaway import ContainerCommand
from servers.host.files import paths
from servers.host.kernel.proc import Kernel

_LOCAL = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")
_LISTENS = "0A"  # TCP_LISTEN, in the fourth column of /proc/net/tcp
_SHM = "/dev/shm"  # noqa: S108 - looked at, not written to
# Where the container toolkit's packages put what Docker calls, and what describes GPUs to it.
_TOOLKIT = (
    "/usr/bin/nvidia-container-runtime-hook",
    "/usr/bin/nvidia-container-toolkit",
    "/usr/bin/nvidia-container-runtime",
    "/usr/bin/nvidia-cdi-hook",
    "/etc/cdi/nvidia.yaml",
    "/var/run/cdi/nvidia.yaml",
)


@dataclass(frozen=True, kw_only=True)
class HostDisk:
    path: str  # on the box
    free: int  # bytes that this user may write
    total: int
    device: int  # of the kernel's; folders on one file system have the same


def disk(path: str, *, root: Path = Path("/")) -> HostDisk | None:
    """The file system that a path lies on, or would lie on; None when nobody may look.

    `root` is where this process sees the box's "/".
    """
    try:
        real = paths.resolve(path, root=root)
        for folder in (real, *real.parents):
            seen = root / folder.relative_to("/")
            if seen.exists():
                return _disk(path, seen)
    except (paths.PathError, OSError):
        return None
    return None


def _disk(path: str, seen: Path) -> HostDisk:
    found = os.statvfs(seen)
    return HostDisk(
        path=path,
        free=found.f_bavail * found.f_frsize,
        total=found.f_blocks * found.f_frsize,
        device=seen.stat().st_dev,
    )


def shared_memory(*, root: Path = Path("/")) -> HostDisk | None:
    """The box's own /dev/shm, which containers with --ipc host use."""
    return disk(_SHM, root=root)


def list_listening_ports(*, root: Path = Path("/")) -> frozenset[int] | None:
    """TCP ports that somebody listens on, of the network that this process is in; None where
    the kernel does not tell. Source: proc(5), /proc/net/tcp.
    """
    tables = [Kernel(root=root).text(f"proc/net/{name}") for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    listening = (row[1] for row in rows if len(row) > 3 and row[3] == _LISTENS)
    found = frozenset(int(address.rpartition(":")[2], 16) for address in listening)
    return found if any(tables) else None


def addresses(*, root: Path = Path("/")) -> frozenset[str] | None:
    """IPv4 addresses of the network that this process is in, without the loopback's; None where
    the kernel does not tell. Source: proc(5), /proc/net/fib_trie.
    """
    text = Kernel(root=root).text("proc/net/fib_trie")
    found = frozenset(each for each in _LOCAL.findall(text) if not each.startswith("127."))
    return found if text else None


def has_toolkit(*, root: Path = Path("/")) -> bool | None:
    """Whether NVIDIA's container toolkit lies where its packages put it; None when unseen."""
    seen = [paths.exists(str(PurePosixPath(each)), root=root) for each in _TOOLKIT]
    return True if True in seen else None if None in seen else False


# 1: page cache, 2: what drivers and the kernel would give back when asked, 3: both.
LEVEL = 3
_SWITCH = Path("/proc/sys/vm/drop_caches")
_SECONDS = 120  # a box with a terabyte of memory has a lot to write


def drop_caches(docker: DockerContainers, *, root: Path = Path("/"), level: int = LEVEL) -> None:
    """Write what is not on disk yet, then drop caches and driver pools.

    Root can do so itself. Anybody else who may speak to Docker can through a container that
    may write kernel settings, and is removed at once: no more power than Docker's socket has.
    The shell in it is the box's own, as an image's might do more than it is told. `root` is
    where this process sees the box's "/". Raises ContainerError. Rule: kernel documentation, vm.drop_caches.
    """
    try:
        os.sync()
        _SWITCH.write_text(f"{level}\n")
    except OSError:
        _through_container(docker, root, level)


def _through_container(docker: DockerContainers, root: Path, level: int = LEVEL) -> None:
    words = ("/bin/sh", "-c", f"sync; echo {level} > {_SWITCH}")
    question = ContainerCommand(
        image=docker.ensure_empty_image(),
        words=words,
        seconds=_SECONDS,
        sets_kernel=True,
        reads=throwaway.list_program_folders(root),
    )
    said = throwaway.ask(docker, question)
    if said.exit_code != 0:
        how = f"exit code {said.exit_code}" if said.end == "ended" else f"it was {said.end}"
        raise ContainerError(
            f"The page cache could not be dropped in a container ({how}): "
            f"{said.errors.strip()[-300:] or 'it said nothing'}",
            kind="other",
        )


# v1 says "no limit" with the largest number of whole pages.
_NO_LIMIT = 1 << 60
_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class CgroupMemory:
    """Main memory of a cgroup at one moment. None: the kernel does not tell."""

    kills: int  # processes in it that the kernel killed for want of memory, whoever had none left
    held: int | None  # bytes, with its page cache
    limit: int | None  # bytes; None: none, or not told
    pids: frozenset[int]  # those that live, in our own pid namespace


def read_memory(kernel: Kernel, pid: int) -> CgroupMemory | None:
    """The memory of the cgroup that a process is in; None where it cannot be read or is gone.

    Sources: cgroup-v2.rst (`memory.events`: oom_kill counts kills by any OOM killer) and
    cgroup-v1/memory.rst (`memory.oom_control`, the same count since Linux 4.13).
    """
    for line in kernel.cgroup(pid).splitlines():
        number, _colon, rest = line.partition(":")
        controllers, _colon, path = rest.partition(":")
        below = path.lstrip("/")
        if "memory" in controllers.split(","):
            folder = f"sys/fs/cgroup/memory/{below}"
            names = ("memory.oom_control", "memory.usage_in_bytes", "memory.limit_in_bytes")
            return _read(kernel, folder, *names)
        if number == "0" and below:
            for mount in ("sys/fs/cgroup", "sys/fs/cgroup/unified"):
                names = ("memory.events", "memory.current", "memory.max")
                found = _read(kernel, f"{mount}/{below}", *names)
                if found is not None:
                    return found
    return None


def _read(kernel: Kernel, folder: str, events: str, held: str, limit: str) -> CgroupMemory | None:
    kills = _KILLS.search(kernel.text(f"{folder}/{events}"))
    if kills is None:
        return None
    most = _number(kernel.text(f"{folder}/{limit}"))
    return CgroupMemory(
        kills=int(kills[1]),
        held=_number(kernel.text(f"{folder}/{held}")),
        limit=None if most is None or most >= _NO_LIMIT else most,
        pids=frozenset(map(int, kernel.text(f"{folder}/cgroup.procs").split())),
    )


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() else None


ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class Ahead:
    seconds: float  # negative: this clock is behind
    within: float  # seconds that this may be off


def ahead_of(there: Callable[[], float], own: Callable[[], float] = time.time) -> Ahead:
    """Of the clock that `there` asks for its unix time in seconds. Raises what that raises.

    Cristian's rule: the answer is from the middle of asking, give or take half of how long it
    took; of several the quickest is the best.
    """
    return min((_once(there, own) for _ in range(ROUNDS)), key=lambda each: each.within)


def _once(there: Callable[[], float], own: Callable[[], float]) -> Ahead:
    asked, said, heard = own(), there(), own()
    return Ahead(seconds=(asked + heard) / 2 - said, within=abs(heard - asked) / 2)

"""Host resources that starts need: disks, ports, NVIDIA's toolkit."""

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from servers.host.files import paths

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
    found: set[int] = set()
    told = False
    for name in ("tcp", "tcp6"):
        try:
            lines = (root / "proc/net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        told = True
        for line in lines:
            columns = line.split()
            if len(columns) > 3 and columns[3] == _LISTENS:
                found.add(int(columns[1].rpartition(":")[2], 16))
    return frozenset(found) if told else None


def addresses(*, root: Path = Path("/")) -> frozenset[str] | None:
    """IPv4 addresses of the network that this process is in, without the loopback's; None where
    the kernel does not tell. Source: proc(5), /proc/net/fib_trie.
    """
    try:
        text = (root / "proc/net/fib_trie").read_text()
    except OSError:
        return None
    return frozenset(each for each in _LOCAL.findall(text) if not each.startswith("127."))


def has_toolkit(*, root: Path = Path("/")) -> bool | None:
    """Whether NVIDIA's container toolkit lies where its packages put it; None when unseen."""
    seen = [paths.exists(str(PurePosixPath(each)), root=root) for each in _TOOLKIT]
    return True if True in seen else None if None in seen else False

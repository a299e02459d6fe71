"""Memory counters of a container's cgroup, read without privileges."""

import re
from dataclasses import dataclass
from pathlib import Path

from servers.host.kernel.proc import Kernel

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
            folder = kernel.root / "sys/fs/cgroup/memory" / below
            return _read(folder, "memory.oom_control", "memory.usage_in_bytes",
                         "memory.limit_in_bytes")  # fmt: skip
        if number == "0" and below:
            for mount in ("sys/fs/cgroup", "sys/fs/cgroup/unified"):
                folder = kernel.root / mount / below
                found = _read(folder, "memory.events", "memory.current", "memory.max")
                if found is not None:
                    return found
    return None


def _read(folder: Path, events: str, held: str, limit: str) -> CgroupMemory | None:
    kills = _KILLS.search(_text(folder / events))
    if kills is None:
        return None
    most = _number(_text(folder / limit))
    return CgroupMemory(
        kills=int(kills[1]),
        held=_number(_text(folder / held)),
        limit=None if most is None or most >= _NO_LIMIT else most,
        pids=frozenset(map(int, _text(folder / "cgroup.procs").split())),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() else None

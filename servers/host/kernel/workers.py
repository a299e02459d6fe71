"""Processes that engines have made: by the names that they give them, or by their container."""

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from servers.host.kernel.proc import PAGE, Kernel, Process, Processes

# What vLLM, SGLang and Ray call the processes that hold their memory.
_NAME = re.compile(r"(?:VLLM::|sglang::|ray::)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class WorkerProcess:
    process: Process
    memory: int | None  # bytes of the machine's that it holds; None: the kernel does not tell
    may_end: bool  # this process may send it signals


def workers(containers: Collection[str], root: Path = Path("/")) -> list[WorkerProcess]:
    """Every process that is called like an engine's worker, or is in one of these containers.

    Containers by their 64 digits. `root` is where this process sees the box's /proc. Nothing
    where it cannot be listed; without the box's own pid namespace only what is in ours.
    """
    kernel = Kernel(root=root)
    wanted = {pid for pid in _pids(root) if _is_one(root / f"proc/{pid}", containers)}
    return [
        WorkerProcess(process=each, memory=_memory(root, each.pid), may_end=_may_end(each.pid))
        for each in Processes(kernel).read(wanted)
    ]


def is_worker(process: Process) -> bool:
    """Whether it is called as engines call the processes that hold their memory."""
    return bool(_NAME.match(process.name))


def _pids(root: Path) -> list[int]:
    try:
        return [int(each.name) for each in (root / "proc").iterdir() if each.name.isdigit()]
    except OSError:
        return []


def _is_one(folder: Path, containers: Collection[str]) -> bool:
    try:
        if _NAME.match((folder / "comm").read_text(errors="replace")):
            return True
        said = (folder / "cgroup").read_text(errors="replace")
    except OSError:
        return False  # it has ended meanwhile
    return any(container in said for container in containers)


def _memory(root: Path, pid: int) -> int | None:
    try:
        return int((root / f"proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return None


def _may_end(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True

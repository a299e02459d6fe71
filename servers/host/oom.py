"""Kills by the kernel for want of memory: its own words in /dev/kmsg, and its counter.

Sizes are bytes, times unix seconds.
"""

import re
from dataclasses import dataclass, field

from servers.host.kernel import PAGE

MOST = 8  # kills, and rises of the counter, that are kept
_OTHERS = 3  # further processes of a kill that are named

# Source: mm/oom_kill.c of Linux: dump_tasks(), dump_oom_victim(), __oom_kill_process().
_HEAD = re.compile(r"^\[\s*pid\s*\]\s+(.*)$")
_TASK = re.compile(r"^\[\s*(\d+)\]\s+(.*)$")
_VICTIM = re.compile(
    r"^oom-kill:constraint=(\w+),.*task_memcg=([^,]*),task=(.*),pid=(\d+),uid=\d+$"
)
_KILLED = re.compile(
    r"Killed process (\d+) \((.*?)\).*anon-rss:(\d+)kB, file-rss:(\d+)kB, shmem-rss:(\d+)kB"
)


@dataclass(frozen=True, kw_only=True)
class Task:
    name: str
    rss: int


@dataclass(frozen=True, kw_only=True)
class Kill:
    t: float
    pid: int  # as the kernel counts, outside of any container
    name: str
    rss: int
    cgroup: str = ""  # of the process; the id of its container is in it
    is_limit: bool = False  # a limit of the cgroup was reached, not the machine's memory
    others: tuple[Task, ...] = ()  # the largest that were looked at beside it, largest first


@dataclass(kw_only=True)
class OomLog:
    """Puts the lines of one kill together. Lines that are none of it change nothing."""

    kills: list[Kill] = field(default_factory=list)  # the newest last
    _columns: list[str] = field(default_factory=list)
    _tasks: dict[int, Task] = field(default_factory=dict)
    _victim: tuple[str, str, int] | None = None  # constraint, cgroup, pid

    def hear(self, text: str, t: float) -> None:
        if found := _HEAD.match(text):
            self._columns, self._tasks, self._victim = found[1].split(), {}, None
        elif found := _TASK.match(text):
            self._hear_task(int(found[1]), found[2])
        elif found := _VICTIM.match(text):
            self._victim = (found[1], found[2], int(found[4]))
        elif found := _KILLED.search(text):
            self._hear_kill(found, t)

    def _hear_task(self, pid: int, said: str) -> None:
        # A name may have spaces, and stands last.
        values = said.split(maxsplit=max(0, len(self._columns) - 1))
        row = dict(zip(self._columns, values, strict=False))
        if row.get("rss", "").isdigit() and row.get("name"):
            self._tasks[pid] = Task(name=row["name"], rss=int(row["rss"]) * PAGE)

    def _hear_kill(self, said: "re.Match[str]", t: float) -> None:
        pid = int(said[1])
        constraint, cgroup, victim = self._victim or ("", "", 0)
        is_it = victim == pid
        others = sorted(
            (task for each, task in self._tasks.items() if each != pid),
            key=lambda task: task.rss,
            reverse=True,
        )
        self.kills.append(
            Kill(
                t=t,
                pid=pid,
                name=said[2],
                rss=sum(int(size) for size in said.groups()[2:]) * 1024,
                cgroup=cgroup if is_it else "",
                is_limit=is_it and constraint == "CONSTRAINT_MEMCG",
                others=tuple(others[:_OTHERS]),
            )
        )
        del self.kills[:-MOST]
        self._columns, self._tasks, self._victim = [], {}, None


@dataclass(kw_only=True)
class OomCounter:
    """When the kernel's count of such kills rose (oom_kill of /proc/vmstat, which all may read)."""

    rises: list[float] = field(default_factory=list)
    _count: int | None = None

    def note(self, count: int | None, t: float) -> None:
        """`count`: None where the kernel does not count them."""
        if count is None:
            return
        if self._count is not None and count > self._count:
            self.rises.append(t)
            del self.rises[:-MOST]
        self._count = count

"""Lines of the kernel log about an OOM kill."""

import re
from dataclasses import dataclass, field

from servers.host.kernel.proc import PAGE

# The lines of one kill, in this order. Source: mm/oom_kill.c (dump_task, dump_oom_summary,
# __oom_kill_process); kernels before 4.19 write no "oom-kill:" line.
_BEGINS = " invoked oom-killer: "
_TABLE = re.compile(r"^\[ *pid *\] +uid +tgid +total_vm +rss ")
_TASK = re.compile(r"^\[ *\d+\] +\d+ +(\d+) +\d+ +(\d+) .* (\S.*)$")
_SUMMARY = re.compile(r"^oom-kill:.*\btask_memcg=(\S*?),task=.*,pid=(\d+),uid=")
_KILLED = re.compile(
    r"^(?:(?P<of>Memory cgroup out of memory|Out of memory[^:]*): )?Killed process (?P<pid>\d+) "
    r"\((?P<name>.*)\),? (?P<sizes>total-vm:.*)$"
)
_RESIDENT = re.compile(r"\b(?:anon|file|shmem)-rss:(\d+)kB")
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?=$|/)")

_MOST = 5  # programs beside the killed one
_LARGE = 256 * 2**20  # bytes: smaller ones explain nothing
_WORDS = 300  # characters of the kernel's


@dataclass(frozen=True, kw_only=True)
class OomKill:
    """One process that the kernel has killed, in its own words."""

    t: float  # unix seconds
    pid: int  # in the pid namespace that the machine booted with
    name: str  # at most 15 characters
    held: int | None  # bytes in main memory; None: not said
    # Its cgroup had reached its limit; False: the machine had no memory left; None: not said.
    is_limit: bool | None
    container: str | None = None  # 64 hexadecimal digits; None: in none, or not said
    others: list[tuple[str, int]] = field(default_factory=list)  # the largest beside it: bytes
    said: str = ""


class OomLog:
    """Is given each line of the kernel's log, in order, and puts those of one kill together."""

    def __init__(self) -> None:
        self._tasks: list[tuple[int, str, int]] = []  # pid, name, bytes
        self._is_table = False
        self._containers: dict[int, str] = {}

    def read(self, text: str, t: float) -> OomKill | None:
        """The kill that this line ends the report of; None for every other line."""
        if _BEGINS in text:
            self._forget()
        elif _TABLE.match(text):
            self._tasks, self._is_table = [], True
        elif self._is_table and (row := _TASK.match(text)):
            self._tasks.append((int(row[1]), row[3], int(row[2]) * PAGE))
        elif found := _SUMMARY.match(text):
            self._is_table = False
            if ids := _CONTAINER.findall(found[1]):
                self._containers[int(found[2])] = ids[-1]
        elif found := _KILLED.match(text):
            return self._build_kill(found, text, t)
        return None

    def _forget(self) -> None:
        self._tasks, self._is_table, self._containers = [], False, {}

    def _build_kill(self, found: re.Match[str], text: str, t: float) -> OomKill:
        pid = int(found["pid"])
        sizes = [int(each) * 1024 for each in _RESIDENT.findall(found["sizes"])]
        others = sorted(
            ((name, size) for task, name, size in self._tasks if task != pid and size >= _LARGE),
            key=lambda each: -each[1],
        )
        return OomKill(
            t=t,
            pid=pid,
            name=found["name"],
            held=sum(sizes) if sizes else None,
            is_limit=found["of"].startswith("Memory cgroup") if found["of"] else None,
            container=self._containers.get(pid),
            others=others[:_MOST],
            said=text[:_WORDS],
        )

"""The kernel log: events of NVIDIA's driver, and OOM kills."""

import dataclasses
import errno
import os
import re
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers.host.gpus.readings import GpuEvent
from servers.host.kernel.proc import PAGE, Kernel
from servers.host.kernel.processes import Programs

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

_MOST_LINES = 5  # programs beside the killed one
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
            others=others[:_MOST_LINES],
            said=text[:_WORDS],
        )


# One record of /dev/kmsg: priority, number, microseconds after boot, flags; then the text.
# Source: the kernel's Documentation/ABI/testing/dev-kmsg.
_RECORD = re.compile(rb"^\d+,\d+,(\d+),[^;]*;(.*)$")
# "PCI:" is missing in lines of older drivers.
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})[^)]*\): (\d+)(?:, *(.*))?$",
    re.IGNORECASE,
)
_NO_MEMORY = "NV_ERR_NO_MEMORY"

_MOST = 4000  # records at once; a full log of the boot takes a few samples
_LARGEST = 8192  # bytes: what the kernel wants to have room for
_TRY_AGAIN = 60.0  # seconds

NOT_THERE = (
    "The kernel's log is not here: give the watcher's container the device /dev/kmsg and the "
    "capability SYSLOG."
)
NOT_ALLOWED = (
    "The kernel's log may not be read by this user: run the watcher with the capability SYSLOG, "
    "or set kernel.dmesg_restrict to 0."
)


class KernelLog:
    """Reads from the beginning of the boot, as far as the kernel still has it. Never waits."""

    def __init__(self, root: Path) -> None:
        self._path = root / "dev/kmsg"
        self._fd: int | None = None
        self._rest = b""
        self._try_again_at = 0.0
        self._oom = OomLog()
        self.unseen: str | None = None  # why it cannot be read

    def news(self) -> list[GpuEvent | OomKill]:
        """What it has told since the last call; nothing where it cannot be read."""
        if self._fd is None and not self._open():
            return []
        # The log counts from the boot, by a clock that cannot be set.
        booted = time.time() - time.monotonic()
        found = (self._parse(text, round(booted + at, 3)) for at, text in self._records())
        return [each for each in found if each is not None]

    def _parse(self, text: str, t: float) -> GpuEvent | OomKill | None:
        return _of_gpus(text, t) or self._oom.read(text, t)

    def _open(self) -> bool:
        if time.monotonic() < self._try_again_at:
            return False
        self._try_again_at = time.monotonic() + _TRY_AGAIN
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            self.unseen = NOT_ALLOWED if error.errno in (errno.EPERM, errno.EACCES) else NOT_THERE
            return False
        self.unseen = None
        return True

    def _records(self) -> Iterator[tuple[float, str]]:
        """Seconds after boot, text."""
        for _record in range(_MOST):
            data = self._read()
            if not data:
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                # Others are the fields that some records have below their text.
                if found := _RECORD.match(line):
                    yield int(found[1]) / 1e6, found[2].decode(errors="replace")

    def _read(self) -> bytes:
        if self._fd is None:
            return b""
        while True:
            try:
                return os.read(self._fd, _LARGEST)
            except BlockingIOError:
                return b""
            except BrokenPipeError:
                continue  # the next record was overwritten; the kernel goes on with the oldest
            except OSError as error:
                self.unseen = f"The kernel's log cannot be read ({error.strerror})."
                os.close(self._fd)
                self._fd, self._rest = None, b""
                return b""


def _of_gpus(text: str, t: float) -> GpuEvent | None:
    if "NVRM" not in text:
        return None
    if found := _XID.search(text):
        domain, bus, device, number, said = found.groups()
        pci = f"{int(domain, 16):04x}:{bus}:{device}".lower()
        return GpuEvent(
            what="xid", t=t, source="kernel", pci=pci, number=int(number), said=said or ""
        )
    if _NO_MEMORY in text:
        return GpuEvent(what="no_memory", t=t, source="kernel", said=text)
    return None


_MOST_KILLS = 16  # kills, and moves of the counter, that a sample tells; the newest


class OomKills:
    """Each sample tells all of the last ones again: a sample may be dropped."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._count: int | None = None
        self._moves: deque[dict[str, Any]] = deque(maxlen=_MOST_KILLS)
        self._told: deque[dict[str, Any]] = deque(maxlen=_MOST_KILLS)

    def add(self, kill: OomKill) -> None:
        """One of which the kernel's log tells."""
        self._told.append(dataclasses.asdict(kill))

    def look(self, t: float) -> None:
        """Read the kernel's counter. What it says first is of before anybody looked."""
        count, before = self._kernel.oom_kills(), self._count
        self._count = count
        if count is not None and before is not None and count > before:
            # Looked for anew each time: it happens seldom, and takes some 10 ms.
            largest = Programs(self._kernel).largest(besides=set())
            self._moves.append(
                {
                    "t": t,
                    "count": count - before,
                    "largest": [[each.name, each.own] for each in largest[:5]],
                }
            )

    def to_json(self) -> dict[str, Any]:
        """`moves` of the counter (t: unix seconds of the sample that saw it), and `killed`."""
        return {"moves": list(self._moves), "killed": list(self._told)}

"""Processes of the machine: ids that stay unique, programs, workers, units, sockets, and ends."""

import os
import re
import select
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from select import POLLIN, poll
from typing import Any, Literal, Self

import psutil

from servers.host.kernel.proc import PAGE, Kernel, Process, Processes

_PREFIX = "pid"
_SHORT = 8  # characters of the boot's id: no box starts so often that two are alike


@dataclass(frozen=True, kw_only=True)
class ProcessId:
    """One life of a process: its number is another's after it, and after each boot."""

    pid: int
    start: int  # clock ticks after the boot
    boot: str = ""  # the beginning of the boot's id; "": the kernel does not tell

    def __str__(self) -> str:
        """ "pid-4711-99-1a2b3c4d", which stands where a container's id would."""
        return "-".join(filter(None, (_PREFIX, str(self.pid), str(self.start), self.boot)))

    @classmethod
    def from_process(cls, pid: int, start: int, kernel: Kernel) -> Self:
        return cls(pid=pid, start=start, boot=(kernel.boot_id() or "")[:_SHORT])

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None for the id of a container."""
        parts = text.split("-")
        if len(parts) not in (3, 4) or parts[0] != _PREFIX:
            return None
        pid, start, boot = (*parts[1:], "")[:3]
        if not (pid.isascii() and pid.isdigit() and start.isascii() and start.isdigit()):
            return None
        return cls(pid=int(pid), start=int(start), boot=boot)

    def is_running(self, kernel: Kernel | None = None) -> bool:
        """Whether it still runs. One that has ended and waits for its parent does not."""
        kernel = kernel or Kernel()
        if self.boot and self.boot != (kernel.boot_id() or "")[:_SHORT]:
            return False
        said = kernel.life(self.pid)
        return said is not None and said.start == self.start and said.state not in "ZX"


def is_process(key: str) -> bool:
    """Whether this stands for a process in no container."""
    return ProcessId.parse(key) is not None


def ends_within(life: ProcessId, seconds: float) -> bool:
    """Wait for its end, so long at most; whether it has ended.

    The kernel tells at once (pidfd_open(2)).
    """
    try:
        handle = os.pidfd_open(life.pid)
    except ProcessLookupError:
        return True
    except OSError:
        # A kernel that cannot, or too many open files.
        time.sleep(seconds)
        return not life.is_running()
    try:
        # The handle may be that of a process which has the number now.
        if not life.is_running():
            return True
        ends = poll()
        ends.register(handle, POLLIN)
        return bool(ends.poll(int(seconds * 1000)))
    finally:
        os.close(handle)


# Programs that hold less of the machine's memory are not worth a name, nor are more of them.
_LARGE = 256 * 2**20
_MOST = 12
_LOOK_EVERY = 10  # rounds: a look at every process of a busy box takes some 10 ms


class Programs:
    """Looks for the largest now and then, and measures them each time."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._processes = Processes(kernel)
        self._largest: list[int] = []
        self._rounds = 0

    def largest(self, *, besides: set[int]) -> list[Process]:
        """Those of at least 256 MiB outside the GPU (`own`), the largest first, without `besides`.

        Rule: RssAnon is what a program has for itself; files that it maps are page cache.
        """
        if self._rounds % _LOOK_EVERY == 0:
            sizes = {pid: self._kernel.own_memory(pid) or 0 for pid in self._kernel.pids()}
            large = [pid for pid, size in sizes.items() if size >= _LARGE]
            self._largest = sorted(large, key=lambda pid: -sizes[pid])[:_MOST]
        self._rounds += 1
        found = self._processes.with_own(set(self._largest) - besides)
        return sorted(found, key=lambda process: -(process.own or 0))


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
    wanted = {pid for pid in kernel.pids() if _is_one(kernel, pid, containers)}
    return [
        WorkerProcess(process=each, memory=_memory(kernel, each.pid), may_end=_may_end(each.pid))
        for each in Processes(kernel).read(wanted)
    ]


def is_worker(process: Process) -> bool:
    """Whether it is called as engines call the processes that hold their memory."""
    return bool(_NAME.match(process.name))


def _is_one(kernel: Kernel, pid: int, containers: Collection[str]) -> bool:
    if _NAME.match(kernel.text(f"proc/{pid}/comm")):
        return True
    said = kernel.cgroup(pid)
    return any(container in said for container in containers)


def _memory(kernel: Kernel, pid: int) -> int | None:
    sizes = kernel.text(f"proc/{pid}/statm").split()
    return int(sizes[1]) * PAGE if len(sizes) > 1 else None


def _may_end(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


GRACE = 10.0  # seconds between SIGTERM and SIGKILL
# A process with a hundred GiB takes its time to give them back, and ends only then.
_DIES_WITHIN = 30.0


class EndingError(Exception):
    """The process was not ended; the text says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class ProcessEnd:
    by: Literal["", "SIGTERM", "SIGKILL"]  # "": it had ended before
    seconds: float


def end_process(
    pid: int,
    *,
    start: int,
    container: str | None,
    grace: float = GRACE,
    dies_within: float = _DIES_WITHIN,
    root: Path = Path("/"),
) -> ProcessEnd:
    """Send SIGTERM, and SIGKILL when it is still there after the grace; wait until it is gone.

    `start` (clock ticks after boot) and `container` (64 digits or None) are what the process had
    when it was looked at. They are compared after the process is held by a descriptor, so that
    no signal reaches another one that was given its number. `root` is where proc is. Raises
    EndingError.
    Rule: pidfd_open(2).
    """
    began = time.monotonic()
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return ProcessEnd(by="", seconds=0.0)
    except OSError as error:
        raise EndingError(f"Process {pid} cannot be held: {error.strerror}.") from error
    try:
        _compare(pid, start, container, root)
        for name, within in ((signal.SIGTERM, grace), (signal.SIGKILL, dies_within)):
            if not _send(handle, pid, name):
                return ProcessEnd(by="", seconds=time.monotonic() - began)
            if _is_gone(handle, within):
                by: Literal["SIGTERM", "SIGKILL"] = (
                    "SIGTERM" if name == signal.SIGTERM else "SIGKILL"
                )
                return ProcessEnd(by=by, seconds=time.monotonic() - began)
    finally:
        os.close(handle)
    raise EndingError(
        f"Process {pid} is still there {dies_within:.0f} s after SIGKILL: it hangs in the kernel, "
        "most likely in the GPU driver. Only a restart of the box ends it."
    )


def _compare(pid: int, start: int, container: str | None, root: Path) -> None:
    found = Processes(Kernel(root=root)).read({pid})
    if not found:
        return  # it ends just now, which is what is wanted
    (now,) = found
    if now.start != start:
        raise EndingError(
            f"Process {pid} is another one by now ({now.name}): the one that was meant has ended, "
            "and its number was given again. Nothing was done."
        )
    if (now.container or None) != (container or None):
        raise EndingError(
            f"Process {pid} ({now.name}) is not in the container that it was in. Nothing was done."
        )


def _send(handle: int, pid: int, name: signal.Signals) -> bool:
    """False where it has ended already."""
    try:
        signal.pidfd_send_signal(handle, name)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise EndingError(
            f"inferdash may not send {name.name} to process {pid}: it belongs to another user, and "
            "inferdash does not run as root."
        ) from error
    return True


def _is_gone(handle: int, within: float) -> bool:
    # Readable as soon as it is a zombie: what it held is given back by then.
    readable, _writable, _else = select.select([handle], [], [], within)
    return bool(readable)


_SERVICE = re.compile(r"/([^/]+\.service)(?=/|$)", re.MULTILINE)
_OWN_MANAGER = re.compile(r"user@\d+\.service")
_SESSION = re.compile(r"/session-[^/]+\.scope(?=/|$)", re.MULTILINE)


def unit(kernel: Kernel, pid: int) -> str:
    """ "vllm.service"; "session" for what somebody who logged in has started; "" otherwise.

    A unit of a user's own systemd stands below user@1000.service and is told as
    "user: vllm.service".
    """
    text = kernel.cgroup(pid)
    services: list[str] = _SERVICE.findall(text)
    own = [each for each in services if not _OWN_MANAGER.fullmatch(each)]
    if own:
        return own[-1] if len(own) == len(services) else f"user: {own[-1]}"
    return "session" if services or _SESSION.search(text) else ""


def listener(port: int) -> str | None:
    """ "python (pid 1234)"; None when nobody does, or when the kernel does not tell us who."""
    pid = next((each.pid for each in _list_listening() if each.laddr.port == port), None)
    try:
        return f"{psutil.Process(pid).name()} (pid {pid})" if pid is not None else None
    except psutil.NoSuchProcess:
        return None


def list_listening_sockets(pids: Collection[int]) -> tuple[tuple[int, str, int], ...]:
    """Process, address and port of each TCP socket on which one of these listens, by port.

    Nothing where the kernel does not tell us whose sockets are (another user's processes, without
    root).
    """
    mine = (each for each in _list_listening() if each.pid and each.pid in pids)
    found = {(each.pid, each.laddr.ip, each.laddr.port) for each in mine}
    return tuple(sorted(found, key=lambda each: (each[2], each[1])))


def container_on(port: int, kernel: Kernel) -> str | None:
    """The container, by its 64 digits, of the program that listens on a port of this box.

    "" for one outside containers; None when nobody listens, or the kernel does not tell us who.
    """
    pid = next((each.pid for each in _list_listening() if each.laddr.port == port), None)
    found = Processes(kernel).read({pid}) if pid else []
    return (found[0].container or "") if found else None


def _list_listening() -> list[Any]:
    """TCP sockets that somebody listens on; none where the kernel does not tell."""
    try:
        found = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return []
    return [each for each in found if each.status == psutil.CONN_LISTEN and each.laddr]

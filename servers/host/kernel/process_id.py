"""Process ids that stay unique: pid, start time and boot."""

import os
import time
from dataclasses import dataclass
from select import POLLIN, poll
from typing import Self

from servers.host.kernel.proc import Kernel

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

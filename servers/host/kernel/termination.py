"""Termination of a process, if it is still the one that was meant."""

import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from servers.host.kernel.proc import Kernel, Processes

GRACE = 10.0  # seconds between SIGTERM and SIGKILL
# A process with a hundred GiB takes its time to give them back, and ends only then.
_DIES_WITHIN = 30.0


class EndingError(Exception):
    """The process was not ended; the text says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class ProcessEnd:
    by: Literal["", "SIGTERM", "SIGKILL"]  # "": it had ended before
    seconds: float


def end(
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

"""The kernel log: events of NVIDIA's driver, and OOM kills."""

import errno
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from servers.host.gpus.readings import GpuEvent
from servers.host.kernel.oom_log import OomKill, OomLog

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

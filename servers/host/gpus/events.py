"""GPU events since the boot, one line a kind, carried by samples.

A sample may be dropped, or its reader be away: each one tells all that is known.
"""

import ctypes
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pynvml

from servers.host.gpus.readings import CardReading, GpuEvent

_MOST = 64  # kinds; the one that was quiet for longest is forgotten
_WORDS = 300  # characters of the kernel's


@dataclass(kw_only=True)
class _Line:
    what: str
    number: int | None
    gpu: str | None
    pci: str | None
    first: float
    last: float
    said: str = ""
    counts: dict[str, int] = field(default_factory=dict)  # by source


class GpuEvents:
    """NVML and the kernel's log tell of the same XID: the larger count of the two holds."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str, int | None], _Line] = {}
        self._uuids: dict[str, str | None] = {}  # by PCI address

    def know(self, readings: Iterable[CardReading]) -> None:
        """Which card is at which address."""
        self._uuids |= {each.pci: each.uuid for each in readings if each.pci}

    def add(self, happened: Iterable[GpuEvent]) -> None:
        for each in happened:
            key = (each.what, each.pci or each.gpu or "", each.number)
            line = self._lines.get(key)
            if line is None:
                line = self._lines[key] = _Line(
                    what=each.what,
                    number=each.number,
                    gpu=each.gpu,
                    pci=each.pci,
                    first=each.t,
                    last=each.t,
                )
            line.first, line.last = min(line.first, each.t), max(line.last, each.t)
            line.said = each.said[:_WORDS] or line.said
            line.counts[each.source] = line.counts.get(each.source, 0) + 1
        while len(self._lines) > _MOST:
            del self._lines[min(self._lines, key=lambda key: self._lines[key].last)]

    def to_json(self) -> list[dict[str, Any]]:
        """The newest last."""
        return [
            {
                "what": line.what,
                "number": line.number,
                "gpu": line.gpu or self._uuids.get(line.pci or ""),
                "pci": line.pci,
                "count": max(line.counts.values()),
                "first": line.first,
                "last": line.last,
                "said": line.said,
                "sources": sorted(line.counts),
            }
            for line in sorted(self._lines.values(), key=lambda line: line.last)
        ]


log = logging.getLogger(__name__)

# As many events are taken at once; more come with the next call.
# A set that fails so often is not made again.
_PATIENCE = 5
_NONE_YET = "No GPU has been read yet."


class XidEvents:
    """An event set of NVML's. Nothing here waits."""

    def __init__(self) -> None:
        self._set: Any = None
        self._cards: dict[int, int] = {}  # address of the handle -> index of the card
        self._refused: dict[int, str] = {}  # why a card is not watched
        self._why = _NONE_YET
        self._failures = 0

    @property
    def unseen(self) -> str | None:
        """Why nothing would be heard; None when XID errors of every card would be."""
        if self._cards and not self._refused:
            return None
        if not self._cards:
            return self._why
        which = ", ".join(str(index) for index in sorted(self._refused))
        return f"GPU {which} reports none: {next(iter(self._refused.values()))}"

    def watch(self, index: int, handle: Any) -> None:
        """Hear of this card from now on. `handle` None: it is lost, and cannot be watched."""
        if handle is None or index in self._refused or self._failures >= _PATIENCE:
            return
        address = _address(handle)
        if self._cards.get(address) == index:
            return
        try:
            if self._set is None:
                self._set = pynvml.nvmlEventSetCreate()
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
        except pynvml.NVMLError as error:
            self._why = f"NVML answers “{error}” when it is asked to report them."
            if error.value != pynvml.NVML_ERROR_GPU_IS_LOST:
                self._refused[index] = self._why
            return
        self._cards[address] = index

    def read(self) -> list[tuple[int, float, int]]:
        """Card, unix seconds, XID of what was reported since the last call."""
        found: list[tuple[int, float, int]] = []
        while self._set is not None and len(found) < _MOST:
            try:
                event = pynvml.nvmlEventSetWait_v2(self._set, 0)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_TIMEOUT:
                    self._give_up(error)
                break
            index = self._cards.get(_address(event.device))
            if index is not None and event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                found.append((index, time.time(), int(event.eventData)))
        return found

    def close(self) -> None:
        if self._set is None:
            return
        try:
            pynvml.nvmlEventSetFree(self._set)
        except pynvml.NVMLError as error:
            log.warning("NVML keeps its set of events: %s", error)
        self._set = None

    def _give_up(self, error: pynvml.NVMLError) -> None:
        """A set with a lost card in it fails for all: the others are watched by a new one."""
        self._why = f"NVML answers “{error}” when it is asked for them."
        self._failures += 1
        self.close()
        self._cards.clear()


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0

"""GPU events since the boot, one line a kind, carried by samples.

A sample may be dropped, or its reader be away: each one tells all that is known.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

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

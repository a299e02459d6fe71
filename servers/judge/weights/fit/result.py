"""The result of an estimate, and the sizes that it comes from."""

from dataclasses import dataclass
from datetime import date
from typing import Literal

from servers.launch.engines.change import LaunchChange

# "no": it does not fit. "unknown": too little is known to say.
type Verdict = Literal["fits", "tight", "no", "unknown"]
type Kind = Literal["others", "weights", "overhead", "request", "cache", "measured", "free"]

BETTER: dict[Verdict, int] = {"no": 0, "unknown": 1, "tight": 2, "fits": 3}


@dataclass(frozen=True, kw_only=True)
class FitPart:
    """A part of the bar. `start` and `width` are percent of the whole."""

    kind: Kind
    name: str
    size: int  # bytes
    start: float = 0.0
    width: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PastMeasurement:
    """What the latest good start of the same launch on the same box was seen to hold."""

    peak: int  # bytes on each of its GPUs
    day: date
    run: int


@dataclass(frozen=True, kw_only=True)
class Number:
    name: str
    value: str
    source: str = ""  # where it comes from


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Of the GPU with the least room: every GPU takes the same share."""

    verdict: Verdict
    says: str  # "Fits: …", the verdict in a few words before a colon
    where: str = ""  # "GPU 1", "Each of GPUs 0, 1"
    total: int = 0  # bytes
    takes: int | None = None  # bytes that it would hold in the end; None: not known
    lacking: int = 0  # bytes over what there is; 0 unless it does not fit
    limit: int = 0  # bytes on the bar up to which the engine lets itself go; 0: it has none
    parts: tuple[FitPart, ...] = ()
    numbers: tuple[Number, ...] = ()
    unknown: tuple[str, ...] = ()  # what is not known, and not counted
    fixes: tuple[LaunchChange, ...] = ()
    is_measured: bool = False

    @property
    def lead(self) -> str:
        return self.says.partition(": ")[0]

    @property
    def rest(self) -> str:
        return self.says.partition(": ")[2]

    @property
    def end(self) -> float | None:
        """Where on a bar that is longer than the GPU the GPU ends, in percent."""
        return self._place(self.total) if self._whole > self.total * 1.005 else None

    @property
    def limit_at(self) -> float | None:
        """Where on the bar the engine's own limit is, in percent."""
        return self._place(self.limit) if self.limit and self.parts else None

    @property
    def _whole(self) -> int:
        return max(self.total, sum(part.size for part in self.parts))

    def _place(self, size: int) -> float:
        return round(min(size, self._whole) * 100 / self._whole, 3)


def laid_out(parts: list[FitPart], total: int) -> tuple[FitPart, ...]:
    """The parts beside each other on a bar as long as `total` or their sum, whichever is more."""
    whole = max(total, sum(part.size for part in parts)) or 1
    found, at = [], 0
    for part in parts:
        if part.size > 0:
            start, width = round(at * 100 / whole, 3), round(part.size * 100 / whole, 3)
            found.append(
                FitPart(kind=part.kind, name=part.name, size=part.size, start=start, width=width)
            )
            at += part.size
    return tuple(found)

"""The guard of unified memory while a model loads.

Where GPU and programs share the memory, one that runs out of it does not fail: the machine hangs
until its power is cut (dgx-spark-playbooks#97, #116; 34 to 12.7 GiB in 1.5 s were seen). What is
left is held against what was foreseen, so that a recipe that leaves little may still start.
"""

from collections import deque
from dataclasses import dataclass
from typing import Literal

GIB = 2**30

type Level = Literal["fine", "alarm", "stop"]

WINDOW = 5.0  # seconds over which a fall and a swap storm are measured
STORM = 256 * 2**20  # bytes a second in and out of swap
# Of what was foreseen to be left, this part may still go.
SLACK = 0.5
LEAST = GIB // 2  # below this nothing that was foreseen helps
CALM = 1.2  # an alarm is over when there is so much more than its threshold


@dataclass(frozen=True, kw_only=True)
class GuardThresholds:
    """Bytes that the machine has left; 0: nothing is ever said, or done."""

    alarm: int = 6 * GIB
    stop: int = 3 * GIB

    def foreseen(self, left: int | None) -> "GuardThresholds":
        """Lower where less was foreseen to be left: half of that, and then not twice over."""
        if left is None:
            return self
        floor = max(LEAST, int(left * SLACK))
        return GuardThresholds(
            alarm=min(self.alarm, max(floor, left - GIB)), stop=min(self.stop, floor)
        )


@dataclass(frozen=True, kw_only=True)
class GuardWarning:
    level: Level
    says: str = ""


class MemoryGuard:
    """Watches one load, by the machine's own figures once a second."""

    def __init__(self, thresholds: GuardThresholds, *, foreseen: int | None) -> None:
        """`foreseen`: bytes that the machine should have left in the end; None: not known."""
        self._thresholds = thresholds.foreseen(foreseen)
        self._foreseen = foreseen
        self._seen: deque[tuple[float, int, int]] = deque()
        self._is_loud = False

    def step(self, t: float, *, available: int, swapped: int) -> GuardWarning:
        """`swapped`: bytes in and out of swap since the machine's start."""
        self._seen.append((t, available, swapped))
        while self._seen[0][0] < t - WINDOW:
            self._seen.popleft()
        alarm, stop = self._thresholds.alarm, self._thresholds.stop
        if stop and available < stop:
            return GuardWarning(level="stop", says=self._words(available))
        if stop and self._swaps and available < max(alarm, stop):
            return GuardWarning(
                level="stop", says=f"{self._words(available)} The machine swaps without end."
            )
        self._is_loud = bool(alarm) and available < alarm * (CALM if self._is_loud else 1)
        return GuardWarning(level="alarm" if self._is_loud else "fine",
                    says=self._words(available) if self._is_loud else "")  # fmt: skip

    @property
    def _took(self) -> float:
        return self._seen[-1][0] - self._seen[0][0]

    @property
    def _swaps(self) -> bool:
        """Only what lasted for most of the window is a storm."""
        if self._took < WINDOW * 0.6:
            return False
        return (self._seen[-1][2] - self._seen[0][2]) / self._took >= STORM

    def _words(self, available: int) -> str:
        says = f"The machine has {available / GIB:.1f} GiB left"
        if self._foreseen is not None:
            says += f" where {max(0, self._foreseen) / GIB:.1f} were foreseen"
        fell = self._seen[0][1] - available
        if self._took and fell / self._took >= GIB / 10:
            says += f", falling {fell / self._took / GIB:.1f} GiB/s"
        return f"{says}."

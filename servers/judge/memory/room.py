"""Memory of each GPU for a launch, by the newest sample, and the guard on loads.

Where GPU and programs share the memory, one that runs out of it does not fail: the machine hangs
until its power is cut (dgx-spark-playbooks#97, #116; 34 to 12.7 GiB in 1.5 s were seen). What is
left is held against what was foreseen, so that a recipe that leaves little may still start.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from servers.judge.messages import Sentence, say


@dataclass(frozen=True, kw_only=True)
class GpuRoom:
    """One GPU's memory in bytes, as an engine on it would count it."""

    index: int
    total: int
    free: int | None  # None: not known
    is_unified: bool = False
    others: int = 0  # of what is not free, what other programs and the machine hold

    @property
    def named(self) -> str:
        return "The memory that GPU and machine share" if self.is_unified else f"GPU {self.index}"


def rooms(
    sample: Mapping[str, Any] | None,
    cards: Collection[Mapping[str, Any]],
    *,
    own: Collection[str] = (),
) -> tuple[GpuRoom, ...]:
    """The GPUs with what is free of them, in the order of `cards`: what the box has last said
    of them ({"index", "total", "kind"}). Those without a total are left out.

    What processes of the containers `own` hold counts as free: the start that is planned would
    replace them. Without a fresh sample nothing is known to be free. CUDA's total is NVML's
    without what the driver reserves.
    """
    is_fresh = sample is not None and sample.get("stale_s") is None
    now = {card["index"]: card for card in (sample or {}).get("gpus") or []} if is_fresh else {}
    meminfo = (sample or {}).get("meminfo") or {}
    container = {
        each["pid"]: each.get("container") for each in (sample or {}).get("processes") or []
    }
    found = []
    for known in cards:
        card = now.get(known["index"], {})
        is_unified = (card.get("kind") or known.get("kind")) == "unified"
        total = card.get("total") or known.get("total")
        free = meminfo.get("MemAvailable") if is_unified else card.get("free")
        if not total:
            continue
        total -= 0 if is_unified else card.get("reserved") or 0
        mine = sum(
            each.get("used") or 0
            for each in card.get("processes") or []
            if container.get(each["pid"]) in own
        )
        if free is None or not card:
            found.append(
                GpuRoom(index=known["index"], total=total, free=None, is_unified=is_unified)
            )
            continue
        free = min(total, free + mine)
        found.append(
            GpuRoom(
                index=known["index"],
                total=total,
                free=free,
                is_unified=is_unified,
                others=max(0, total - free),
            )
        )
    return tuple(found)


def compute_free(sample: Mapping[str, Any] | None, gpus: str) -> dict[int, int] | None:
    """Free bytes of each of these GPUs ("all", or indices) by index; None where it is not known.

    On unified memory that is what programs may still have of the machine's.
    """
    if sample is None or sample.get("stale_s") is not None:
        return None
    indices = {int(index) for index in gpus.split(",") if index.isdigit()}
    wanted = None if gpus == "all" else indices
    available = (sample.get("meminfo") or {}).get("MemAvailable")
    found = {
        card["index"]: available if card.get("kind") == "unified" else card.get("free")
        for card in sample.get("gpus") or []
        if wanted is None or card["index"] in wanted
    }
    return {index: size for index, size in found.items() if size is not None} or None


def compute_unheld(sample: Mapping[str, Any] | None) -> int | None:
    """Bytes of a unified pool that are in use although no GPU process holds them.

    That is the machine's own memory, and what an engine that has ended did not give back.
    None where GPUs have memory of their own, or where nothing is known.
    """
    if sample is None or sample.get("stale_s") is not None:
        return None
    cards = sample.get("gpus") or []
    known = sample.get("meminfo") or {}
    if "MemTotal" not in known or "MemAvailable" not in known:
        return None
    if not any(card.get("kind") == "unified" for card in cards):
        return None
    held: dict[int, int] = {
        each["pid"]: each.get("used") or 0 for card in cards for each in card.get("processes") or []
    }
    used = int(known["MemTotal"]) - int(known["MemAvailable"])
    return max(0, used - sum(held.values()))


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
    code: str = ""  # of the message that begins `says`


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
            return _warn("stop", self._describe(available))
        if stop and self._swaps and available < max(alarm, stop):
            return _warn("stop", [*self._describe(available), say("memory.guard-swaps")])
        self._is_loud = bool(alarm) and available < alarm * (CALM if self._is_loud else 1)
        if not self._is_loud:
            return GuardWarning(level="fine")
        return _warn("alarm", self._describe(available))

    @property
    def _took(self) -> float:
        return self._seen[-1][0] - self._seen[0][0]

    @property
    def _swaps(self) -> bool:
        """Only what lasted for most of the window is a storm."""
        if self._took < WINDOW * 0.6:
            return False
        return (self._seen[-1][2] - self._seen[0][2]) / self._took >= STORM

    def _describe(self, available: int) -> list[Sentence]:
        if self._foreseen is None:
            said = [say("memory.guard-left", size=available)]
        else:
            foreseen = max(0, self._foreseen)
            said = [say("memory.guard-left-of-foreseen", size=available, foreseen=foreseen)]
        fell = self._seen[0][1] - available
        if self._took and fell / self._took >= GIB / 10:
            said.append(say("memory.guard-falling", rate=fell / self._took))
        return said


def _warn(level: Level, said: list[Sentence]) -> GuardWarning:
    return GuardWarning(level=level, says=" ".join(map(str, said)), code=said[0].code)

"""Memory of each GPU for a launch, by the newest sample."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any


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

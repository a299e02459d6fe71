"""GPUs that only spin: busy to the driver, without progress. Times in seconds.

The rule is that of docs/gpu-memory.md. A collective that waits for a rank which never comes
keeps every multiprocessor busy with polling; the memory is not touched and little power is
drawn. /health may answer all the while, so that only the cards give it away.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

BUSY = 90  # percent
STILL = 1  # percent of the time in which memory is read or written
# Of a card's power limit: computing takes more.
POWER_SHARE = 0.4
# A GB10 reports neither memory utilisation nor a limit. At work it draws 45 W and more, in a
# deadlock 13-27 W.
POWER_GB10 = 30.0
# Below this clock a busy GB10 is not deadlocked but held back, which is another fault.
CLOCK_GB10 = 1400  # MHz

AFTER = timedelta(seconds=120)  # of nothing else than spinning
# A start must have been silent for so long, too: kernels are compiled for minutes on a GB10.
SILENT = timedelta(minutes=2)
SILENT_UNIFIED = timedelta(minutes=10)


def cards_of(sample: Mapping[str, Any], container: str) -> list[Mapping[str, Any]]:
    """The cards of a sample on which the container has a process."""
    mine = {
        each["pid"] for each in sample.get("processes") or [] if each.get("container") == container
    }
    return [
        card
        for card in sample.get("gpus") or []
        if any(process["pid"] in mine for process in card.get("processes") or [])
    ]


def spins(card: Mapping[str, Any]) -> bool | None:
    """Whether a card of a sample is busy with nothing; None where it does not tell enough."""
    util, power = card.get("util"), card.get("power_w")
    if util is None:
        return None
    if util < BUSY:
        return False
    if card.get("kind") == "unified":
        clock = card.get("sm_mhz")
        if power is None or clock is None:
            return None
        return bool(power < POWER_GB10 and clock >= CLOCK_GB10)
    moved, limit = card.get("mem_util"), card.get("power_limit_w")
    if moved is None:
        return None
    if power is not None and limit and power >= POWER_SHARE * limit:
        return False
    return bool(moved <= STILL)


def all_spin(cards: Iterable[Mapping[str, Any]]) -> bool:
    """Whether every one of an engine's cards does; not where one does not tell, or there is none."""
    found = [spins(card) for card in cards]
    return bool(found) and all(each is True for each in found)


def is_stuck(
    spinning: datetime | None, heard: datetime | None, *, unified: bool, now: datetime
) -> bool:
    """Whether a start is deadlocked: `spinning` is since when all of its cards spin, `heard`
    its last line or progress; None: never."""
    if spinning is None or now - spinning < AFTER:
        return False
    return heard is None or now - heard >= (SILENT_UNIFIED if unified else SILENT)


def words(phase: str, *, cards: int) -> str:
    """What it looks like, after "stuck: "; `phase` is a key of PHASES, "" when it serves."""
    where = {
        "": "while it serves",
        "capturing": "in graph capture",
        "ready": "while it serves",
    }.get(phase, "in its start")
    if cards > 1:
        return f"looks like a collective deadlock {where}"
    return f"looks like a deadlock {where}"


def remedy(engine: str, phase: str, *, unified: bool) -> str:
    """What to do, in sentences. Sources: the guide on two DGX Sparks; vLLM's issue 52504;
    the rtx6kpro wiki on cards that meet over PCIe."""
    flag = {"vllm": "--enforce-eager", "sglang": "--disable-cuda-graph"}.get(engine)
    text = "Its GPUs are busy, but move nothing; waiting does not help."
    if phase in ("capturing", "tuning") and flag:
        text += f" Stop it and start it with {flag}."
    elif phase in ("", "ready"):
        text += " Stop it and start it again."
    elif phase == "connecting" and not unified:
        text += (
            " Stop it. Between cards without NVLink NCCL_P2P_LEVEL=PHB cures it, or doing without that"
            " variable, or an IOMMU that is switched off (iommu=off on the kernel's command line)."
        )
    else:
        text += " Stop it; if it is stuck again, look at the links between its ranks (NCCL_DEBUG)."
    if unified:
        text += " Across two machines NCCL 2.30.4 cures deadlocks in CUDA graphs."
    return text

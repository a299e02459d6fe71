"""Free memory of a sample, and memory that no GPU process holds."""

from collections.abc import Mapping
from typing import Any


def free(sample: Mapping[str, Any] | None, gpus: str) -> dict[int, int] | None:
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


def unheld(sample: Mapping[str, Any] | None) -> int | None:
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

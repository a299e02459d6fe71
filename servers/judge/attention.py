"""What a person should look at first, most urgent first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

GIB = 2**30

# A GB10 with less than this left is about to swap, and then to hang.
LOW_UNIFIED = 6 * GIB
# Below this the kernel's OOM killer is near on any machine.
LOW_MACHINE = 2 * GIB

# What is said of verdicts that somebody can do something about.
_MEMORY = {
    "leaked": "has lost memory",
    "residual": "has memory that an engine left behind",
    "reclaimable": "has memory that can be reclaimed",
}


@dataclass(frozen=True, kw_only=True)
class Notice:
    level: Literal["failed", "attention"]
    about: Literal["server", "box"]
    slug: str  # of the server or box
    what: str  # what happened
    fix: str = ""  # what to do next


@dataclass(frozen=True, kw_only=True)
class BoxState:
    """What is known of a box now. `sample` is None when the collector has been silent."""

    slug: str
    is_silent: bool
    was_seen: bool
    problems: tuple[tuple[str, str], ...]  # what, fix
    sample: Mapping[str, Any] | None
    strays: int = 0  # containers of ours that work although no run holds them


def of_boxes(boxes: Iterable[BoxState]) -> list[Notice]:
    """Notices on boxes. A silent box gets one only: the rest of what is known of it is old."""
    found: list[Notice] = []
    for box in boxes:
        if box.is_silent:
            found.append(_silence(box))
            continue
        found += [_about(box, what, fix) for what, fix in box.problems]
        found += _strays(box)
        if box.sample is not None:
            found += _low_memory(box, box.sample)
            found += _faults(box, box.sample)
            found += _memory(box, box.sample)
    return found


def _silence(box: BoxState) -> Notice:
    if box.was_seen:
        return _about(
            box,
            "is silent: its watcher gives no sign of life, so what is shown of it is old",
            "Engines go on running. On the box, see whether inferdash runs and what its log says; "
            "if the box does not answer at all, it may hang.",
            level="failed",
        )
    return _about(
        box,
        "has never been seen: its watcher is not running yet",
        "Start inferdash on the box and look at the lines that begin with “watcher”.",
    )


def _low_memory(box: BoxState, sample: Mapping[str, Any]) -> list[Notice]:
    available = sample.get("meminfo", {}).get("MemAvailable")
    unified = any(card.get("kind") == "unified" for card in sample.get("gpus") or [])
    if available is None or available >= (LOW_UNIFIED if unified else LOW_MACHINE):
        return []
    left = f"only {available / GIB:.1f} GiB of memory are left"
    fix = (
        "GPU and machine share this memory: stop a server before the machine starts to swap."
        if unified
        else "This is main memory, not GPU memory. Stop what needs most of it."
    )
    return [_about(box, left, fix, level="failed")]


def _strays(box: BoxState) -> list[Notice]:
    if not box.strays:
        return []
    are = (
        "1 container runs that no run"
        if box.strays == 1
        else f"{box.strays} containers run that no run"
    )
    return [
        _about(
            box,
            f"{are} of the database holds",
            "As after an older copy of the database was put back. Adopt or remove them on the "
            "box's page.",
        )
    ]


def _faults(box: BoxState, sample: Mapping[str, Any]) -> list[Notice]:
    return [
        _about(box, f"GPU {card['index']} has a fault", card["fault"], level="failed")
        for card in sample.get("gpus") or []
        if card.get("fault")
    ]


def _memory(box: BoxState, sample: Mapping[str, Any]) -> list[Notice]:
    indices = {card.get("uuid"): card["index"] for card in sample.get("gpus") or []}
    return [
        _about(
            box,
            f"GPU {indices[each['gpu']]} {_MEMORY[each['verdict']]}",
            f"{each['reason']} {each['advice']}".strip(),
            level="failed" if each["verdict"] == "leaked" else "attention",
        )
        for each in sample.get("verdicts") or []
        if each["verdict"] in _MEMORY and each["gpu"] in indices
    ]


def _about(
    box: BoxState, what: str, fix: str, *, level: Literal["failed", "attention"] = "attention"
) -> Notice:
    return Notice(level=level, about="box", slug=box.slug, what=what, fix=fix)

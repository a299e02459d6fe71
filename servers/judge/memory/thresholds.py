"""Thresholds of verdicts on memory: bytes and seconds.

The rule is that of docs/gpu-memory.md, where the names stand too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

GIB = 2**30

_PAIR = re.compile(r"([a-z_]+)(?:\.([a-z]+))?=([0-9]{1,6}(?:\.[0-9]{1,3})?)")
# Told in GiB; the others in seconds, or as a share.
_SIZES = (
    *("baseline", "baseline_most", "baseline_growth", "falling", "warn", "bad", "residual"),
    *("host_growth", "boot_growth"),
)


@dataclass(frozen=True, kw_only=True)
class MemoryThresholds:
    """Each by the kind of pool where that makes a difference."""

    baseline: Mapping[str, int] = field(
        default_factory=lambda: {"unified": 3 * GIB, "discrete": 600 << 20, "numa": 2 * GIB}
    )
    # A baseline that was measured counts up to here: it may have been measured after a loss.
    baseline_most: Mapping[str, int] = field(
        default_factory=lambda: {"unified": 6 * GIB, "discrete": 2 * GIB, "numa": 6 * GIB}
    )
    baseline_growth: int = 2 * GIB  # over the best of earlier boots
    grace: Mapping[str, float] = field(
        default_factory=lambda: {"unified": 240.0, "discrete": 30.0, "numa": 240.0}
    )
    falling: int = GIB // 2  # within `falling_within`: it is on its way back
    falling_within: float = 10.0
    falling_grace: float = 60.0
    warn: tuple[int, float] = (2 * GIB, 0.02)  # the larger of bytes and share of the pool
    bad: tuple[int, float] = (6 * GIB, 0.05)
    enter_after: float = 60.0
    leave_after: float = 30.0
    leave_below: float = 0.7  # of `bad`
    residual: int = GIB // 2
    missing_for: float = 30.0  # a process that the driver lists and the kernel does not have
    stuck_for: float = 60.0
    stuck_running_for: float = 300.0  # while its container runs: it may be reading a slow disk
    reclaim_takes: float = 30.0
    reclaim_unchanged: float = 0.9  # of what was missing before
    booting: float = 120.0
    idle_after_stop: float = 300.0
    cache_share: float = 0.1
    host_growth: int = 8 * GIB
    boot_growth: int = 5 * GIB  # more than the best of earlier boots, from this one's start on
    boot_seen: float = 600.0  # of uptime, until which a boot counts as seen from its start

    def compute_limit(self, limit: tuple[int, float], total: int) -> int:
        return max(limit[0], int(limit[1] * total))


def read(text: str) -> MemoryThresholds:
    """Those of pairs such as `grace=60 grace.unified=120 bad=8`, sizes in GiB, times in seconds.

    What is not named is as usual. Raises ValueError with a sentence.
    """
    found = MemoryThresholds()
    names = {each.name for each in fields(MemoryThresholds)}
    for pair in text.replace(",", " ").split():
        match = _PAIR.fullmatch(pair)
        if match is None or match[1] not in names:
            raise ValueError(
                f"“{pair[:40]}” is no threshold. Write name=number, with a name of: "
                f"{', '.join(sorted(names))}."
            )
        found = replace(
            found, **{match[1]: _parse_threshold(found, match[1], match[2] or "", match[3])}
        )
    return found


def _parse_threshold(found: MemoryThresholds, name: str, kind: str, number: str) -> Any:
    value = int(float(number) * GIB) if name in _SIZES else float(number)
    before = getattr(found, name)
    if isinstance(before, Mapping):
        if kind and kind not in before:
            raise ValueError(f"“{name}.{kind}”: there are {', '.join(before)}.")
        return {each: value if kind in ("", each) else old for each, old in before.items()}
    if kind:
        raise ValueError(f"“{name}” is the same for every kind of memory.")
    return (value, before[1]) if isinstance(before, tuple) else value

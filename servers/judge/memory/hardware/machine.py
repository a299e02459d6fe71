"""The machine's own memory: programs that wait for it, and swap."""

from collections import deque
from collections.abc import Iterator
from typing import ClassVar

from servers.judge.memory.hardware.duration import Lasting
from servers.judge.memory.hardware.finding import BOX, HardwareFinding, Severity
from servers.judge.memory.hardware.sample import GIB, HardwareSample

MIB = 2**20

# Percent of the last ten seconds in which some, or all, programs waited. The choice of this
# project: a model that is read from disk makes some wait for a moment, too.
_SOME, _FULL, _FULL_BAD = 10.0, 5.0, 25.0
_PRESSED_AFTER, _CALM_AFTER = 20.0, 30.0

# Swap in use: where the GPU works in the same memory, what is swapped out is part of an engine.
_USED = 1 * GIB
_USED_AFTER, _UNUSED_AFTER = 60.0, 60.0
# A storm, as while a model loads (servers/judge/memory/load_guard.py) but seen for longer.
_STORM = 100 * MIB  # bytes a second in and out
_STORM_WITHIN = 10.0
_STORM_AFTER, _STORM_OVER = 5.0, 30.0

_FREE_IT = "Stop a server, or end what needs much beside the engines (“ps aux --sort=-rss | head”)."


class PressureRule:
    """Source: pressure stall information, the kernel's Documentation/accounting/psi.rst."""

    ids: ClassVar[tuple[str, ...]] = ("memory_pressure",)
    needs_cards: ClassVar[bool] = False

    def __init__(self) -> None:
        self._pressed = Lasting(enter=_PRESSED_AFTER, leave=_CALM_AFTER)
        self._halted = Lasting(enter=_PRESSED_AFTER, leave=_CALM_AFTER)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        pressure = now.sample.get("pressure")
        some, full = (pressure["some"], pressure["full"]) if pressure else (0.0, 0.0)
        pressed = self._pressed.find_start(
            BOX, now.t, None if pressure is None else some > _SOME or full > _FULL
        )
        halted = self._halted.find_start(BOX, now.t, None if pressure is None else full > _FULL_BAD)
        if pressed is None or pressure is None:
            return
        left = (now.sample.get("meminfo") or {}).get("MemAvailable")
        available = f" {left / GIB:.1f} GiB are available." if left is not None else ""
        severity: Severity = "critical" if halted else "warning"
        yield HardwareFinding(
            rule="memory_pressure",
            subject=BOX,
            severity=severity,
            title="Memory pressure",
            because=f"PSI of the last ten seconds: some {some:.0f} %, full {full:.0f} %.{available}",
            advice=_FREE_IT
            + (" A box like this hangs when it runs out of memory." if now.is_unified else ""),
            since=pressed,
        )


class Swap:
    ids: ClassVar[tuple[str, ...]] = ("swap",)
    needs_cards: ClassVar[bool] = False

    def __init__(self) -> None:
        self._used = Lasting(enter=_USED_AFTER, leave=_UNUSED_AFTER)
        self._storm = Lasting(enter=_STORM_AFTER, leave=_STORM_OVER)
        self._seen: deque[tuple[float, int]] = deque()

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        meminfo = now.sample.get("meminfo") or {}
        total, free = meminfo.get("SwapTotal"), meminfo.get("SwapFree")
        used = None if total is None or free is None else total - free
        rate = self._rate(now)
        is_storm = None if rate is None else rate >= _STORM
        is_used = None if used is None else used >= _USED
        storm = self._storm.find_start(BOX, now.t, is_storm)
        in_use = self._used.find_start(BOX, now.t, is_used)
        holds = "" if used is None or total is None else _format_share(used, total)
        if storm:
            yield HardwareFinding(
                rule="swap",
                subject=BOX,
                severity="critical" if now.is_unified else "warning",
                title="The box swaps without end",
                because=f"{(rate or 0) / MIB:.0f} MiB a second go to and from swap.{holds}",
                advice=_FREE_IT + " Until then everything on the box is slow.",
                since=storm,
            )
        elif in_use:
            yield HardwareFinding(
                rule="swap",
                subject=BOX,
                severity="warning" if now.is_unified else "info",
                title="Swap is in use",
                because=holds.strip()
                + (
                    " GPU and machine share their memory here, so it may be an engine's."
                    if now.is_unified
                    else " What lies there is slow to come back, and mostly not missed."
                ),
                advice="When enough memory is free: “sudo swapoff -a && sudo swapon -a” brings it "
                "back. So that it does not happen again, leave the machine more memory.",
                since=in_use,
            )

    def _rate(self, now: HardwareSample) -> float | None:
        """Bytes a second in and out; None until it was watched for some seconds."""
        swap = now.sample.get("swap")
        if swap is None or now.sample.get("stale_s") is not None:
            return None
        seen, moved = self._seen, int(swap["in"]) + int(swap["out"])
        if seen and (now.t < seen[-1][0] or moved < seen[-1][1]):
            seen.clear()
        seen.append((now.t, moved))
        while seen[0][0] < now.t - _STORM_WITHIN:
            seen.popleft()
        took = now.t - seen[0][0]
        return (moved - seen[0][1]) / took if took >= _STORM_WITHIN / 2 else None


def _format_share(used: int, total: int) -> str:
    return f" {used / GIB:.1f} of {total / GIB:.1f} GiB of swap are in use."

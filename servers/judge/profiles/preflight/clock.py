"""Preflight of the clocks of the boxes that a start runs over."""

from collections.abc import Iterator

from servers.judge.profiles.facts import LaunchFacts
from servers.judge.profiles.preflight.context import (
    ClockOffset,
    PreflightItem,
    StartContext,
    item,
)

# Seconds. Ours, no engine names one: NTP keeps machines of one network within milliseconds, so a
# second says that it does not run, and puts the lines of two logs in the wrong order.
APART = 1.0


def clocks(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    """One item, for a start over several boxes, or where this box is off by itself."""
    told = {box: clock for box, clock in around.clocks.items() if clock is not None}
    own = told.get(around.box)
    if (facts.nodes or 1) > 1 and len(around.clocks) > 1:
        yield _compare_clocks(told, [box for box in around.clocks if box not in told])
    elif own is not None and _is_off(own):
        yield item(
            "clock", "Clock", "warning",
            f"The clock of {around.box} is {_off(own)} the one by which inferdash keeps its times: "
            "those of this start will be off by that.",
            _remedy(around.box),
        )  # fmt: skip


def _compare_clocks(told: dict[str, ClockOffset], silent: list[str]) -> PreflightItem:
    if silent:
        return item(
            "clock", "Clocks", "unknown",
            f"This start runs over several boxes, and {', '.join(silent)} has not told its time "
            "lately.",
        )  # fmt: skip
    first, last = (pick(told, key=lambda box: told[box].ahead) for pick in (min, max))
    apart = told[last].ahead - told[first].ahead
    if apart <= APART + told[first].within + told[last].within:
        return item("clock", "Clocks", "ok", f"The clocks of {', '.join(told)} agree.")
    return item(
        "clock", "Clocks", "warning",
        f"The clock of {last} is {_seconds(apart)} ahead of {first}'s, and this start runs over "
        "several boxes: their logs cannot be read side by side, and what must meet in time "
        "(rendezvous, certificates, tokens) may fail.",
        _remedy(f"{first} and {last}"),
    )  # fmt: skip


def _is_off(clock: ClockOffset) -> bool:
    return abs(clock.ahead) > APART + clock.within


def _off(clock: ClockOffset) -> str:
    return f"{_seconds(abs(clock.ahead))} {'ahead of' if clock.ahead > 0 else 'behind'}"


def _seconds(count: float) -> str:
    return f"{count:.1f} s" if count < 120 else f"{count / 60:.0f} min"


def _remedy(where: str) -> str:
    return (
        f"Let NTP set it, on {where}: sudo timedatectl set-ntp true; timedatectl says if it does."
    )

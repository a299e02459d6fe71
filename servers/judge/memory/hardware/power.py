"""Clocks held back by power: from outside, or by the firmware of a GB10."""

from collections.abc import Iterator
from typing import ClassVar

from servers.judge.memory.hardware.duration import Often
from servers.judge.memory.hardware.finding import HardwareFinding
from servers.judge.memory.hardware.sample import Card, HardwareSample, build_card_finding, uuid

# Parts of the last minute.
_WINDOW, _SOME, _NONE, _MUCH = 60.0, 0.1, 0.02, 0.5

# Under load a healthy GB10 draws 45 W and more at over 2000 MHz; one that its firmware holds
# back was seen at 799 MHz and 19.5 W, others at 500 to 850 MHz and about 14 W. In a deadlock,
# which is another fault, the clock is high. Sources: model-serving-minefield, trap 124;
# sparkview's limit of 1400 MHz.
_BUSY, _LOW_CLOCK, _LOW_POWER = 90, 1400, 45.0
_STUCK, _WELL = 0.9, 0.5
_NAMED = {"hw_thermal", "sw_thermal", "hw_power_brake", "hw_slowdown", "applications_clocks"}


class PowerBrake:
    """Sources: clocks event reasons of nvml.h: 0x80 from outside, 0x8 for want of a better word."""

    ids: ClassVar[tuple[str, ...]] = ("power_brake",)
    needs_cards: ClassVar[bool] = True

    def __init__(self) -> None:
        self._braked = Often(window=_WINDOW, enter=_SOME, leave=_NONE)
        self._mostly = Often(window=_WINDOW, enter=_MUCH, leave=_MUCH / 2)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for card in now.cards:
            key, reasons = uuid(card), card.get("throttle") or []
            is_braked = "hw_power_brake" in reasons
            # Heat sets the general bit, too.
            is_slowed = "hw_slowdown" in reasons and "hw_thermal" not in reasons
            since = self._braked.find_start(key, now.t, is_braked or is_slowed)
            mostly = self._mostly.find_start(key, now.t, is_braked or is_slowed)
            if since is None:
                continue
            part = self._braked.part(key)
            yield build_card_finding(
                card, "power_brake", "critical" if mostly else "warning", since,
                title="is held back by its power supply",
                because=f"The hardware made this GPU slow down in {part * 100:.0f} % of the last "
                f"minute, and not for heat{_draws(card)}.",
                advice="Look at the power cables of the card, at the power supplies (has one of "
                "them failed?) and at limits that the server's management sets.",
            )  # fmt: skip


def _draws(card: Card) -> str:
    power, limit = card.get("power_w"), card.get("power_limit_w")
    if power is None:
        return ""
    return f"; it draws {power:.0f}{f' of {limit:.0f}' if limit else ''} W"


class LowPower:
    """Only under load can it be told; what was told holds until the next load shows better."""

    ids: ClassVar[tuple[str, ...]] = ("low_power",)
    needs_cards: ClassVar[bool] = True

    def __init__(self) -> None:
        self._stuck = Often(window=_WINDOW, enter=_STUCK, leave=_WELL)
        self._seen: dict[str, str] = {}

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for card in now.cards:
            key, is_down = uuid(card), _is_held_down(card)
            since = self._stuck.current(key)
            if is_down is not None:
                since = self._stuck.find_start(key, now.t, is_down)
                self._seen[key] = _figures(card)
            if since is not None:
                yield build_card_finding(
                    card, "low_power", "warning", since,
                    title="is stuck at low power",
                    because=f"Busy it ran at {self._seen[key]}, and no reason is told; at work a "
                    "GB10 runs at more than 2000 MHz. Engines on it are slow.",
                    advice="Its firmware holds it back, and only taking its power away helps: "
                    "shut the box down, pull the power adapter from the wall for a minute, and "
                    "use the adapter that came with it. A restart alone does not help.",
                )  # fmt: skip


def _is_held_down(card: Card) -> bool | None:
    """None: not at work, or not told."""
    util, clock, power = card.get("util"), card.get("sm_mhz"), card.get("power_w")
    if card.get("kind") != "unified" or util is None or clock is None or util < _BUSY:
        return None
    is_named = bool(_NAMED & set(card.get("throttle") or []))
    return bool(clock < _LOW_CLOCK and (power is None or power < _LOW_POWER) and not is_named)


def _figures(card: Card) -> str:
    power = card.get("power_w")
    return f"{card.get('sm_mhz')} MHz" + (f" and {power:.0f} W" if power is not None else "")

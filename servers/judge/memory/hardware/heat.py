"""Temperatures, and clocks that are held back for them."""

from collections.abc import Iterator
from typing import ClassVar

from servers.judge.memory.hardware.duration import Lasting, Often
from servers.judge.memory.hardware.finding import HardwareFinding, Severity
from servers.judge.memory.hardware.sample import Card, HardwareSample, build_card_finding, uuid

# Degrees. Near enough to a limit of the card's own to say so.
_NEAR_SLOWDOWN = 2
_NEAR_SHUTDOWN = 3
# For a card that tells no limit: the choice of this project.
_HOT = 92
_HOT_AFTER, _COOL_AFTER = 20.0, 30.0

# A part of the last minute; gpud calls 0.6 events a minute unhealthy, and each lasts seconds.
_WINDOW, _SOME, _NONE = 60.0, 0.1, 0.02
_MUCH = 0.5
# The driver's own slow-down is gentle, so it is told only when it goes on.
_GENTLE_WINDOW, _GENTLE = 300.0, 0.5

_COOL = (
    "Look at fans, filters and the air in front of and behind the box; cards beside each other "
    "need a fan of the server's that is set to full. Until then a lower power limit helps: "
    "“sudo nvidia-smi -pl WATTS”."
)
_COOL_UNIFIED = (
    "Give the box room on all sides and stop one server; two boxes stacked on each other heat "
    "each other."
)


class Thermal:
    """Sources: clocks event reasons of nvml.h (0x20, 0x40); the card's own limits."""

    ids: ClassVar[tuple[str, ...]] = ("thermal",)
    needs_cards: ClassVar[bool] = True

    def __init__(self) -> None:
        self._hot = Lasting(enter=_HOT_AFTER, leave=_COOL_AFTER)
        self._burning = Lasting(enter=3.0, leave=_COOL_AFTER)
        self._braked = Often(window=_WINDOW, enter=_SOME, leave=_NONE)
        self._mostly = Often(window=_WINDOW, enter=_MUCH, leave=_MUCH / 2)
        self._slowed = Often(window=_GENTLE_WINDOW, enter=_GENTLE, leave=_GENTLE / 2)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for card in now.cards:
            key, reasons = uuid(card), card.get("throttle") or []
            burning = self._burning.find_start(key, now.t, _is_burning(card))
            hot = self._hot.find_start(key, now.t, _is_hot(card))
            braked = self._braked.find_start(key, now.t, "hw_thermal" in reasons)
            mostly = self._mostly.find_start(key, now.t, "hw_thermal" in reasons)
            slowed = self._slowed.find_start(key, now.t, "sw_thermal" in reasons)
            part = self._braked.part(key)
            severity: Severity = "critical" if burning or mostly else "warning"
            causes = [
                (burning, f"It is at {_degrees(card)}, just below where it turns itself off"),
                (
                    braked,
                    f"Its hardware held the clocks back in {part * 100:.0f} % of the last minute"
                    f"{_format_place(card)}",
                ),
                (hot, f"It is at {_degrees(card)}{_margin(card)}"),
                (slowed, "The driver has held its clocks back for most of the last five minutes"),
            ]
            found = [(since, words) for since, words in causes if since]
            if found:
                yield build_card_finding(
                    card, "thermal", severity, min(since for since, _words in found),
                    title="is too hot" if burning or hot or braked else "is slowed down by heat",
                    because=f"{found[0][1]}{_limits(card)}.",
                    advice=_COOL_UNIFIED if card.get("kind") == "unified" else _COOL,
                )  # fmt: skip


def _is_burning(card: Card) -> bool | None:
    degrees, limit = card.get("temperature_c"), card.get("shutdown_c")
    return None if degrees is None or limit is None else degrees >= limit - _NEAR_SHUTDOWN


def _is_hot(card: Card) -> bool | None:
    """By the margin that newer cards tell, else the limit of older ones, else a fixed one."""
    if (margin := card.get("margin_c")) is not None:
        return bool(margin <= _NEAR_SLOWDOWN)
    if (degrees := card.get("temperature_c")) is None:
        return None
    limit = card.get("slowdown_c")
    return bool(degrees >= (_HOT if limit is None else limit - _NEAR_SLOWDOWN))


def _degrees(card: Card) -> str:
    return (
        f"{card.get('temperature_c')} °C" if card.get("temperature_c") is not None else "its limit"
    )


def _format_place(card: Card) -> str:
    degrees = card.get("temperature_c")
    return f", at {degrees} °C" if degrees is not None else ""


def _limits(card: Card) -> str:
    known = (("slows down", "slowdown_c"), ("turns off", "shutdown_c"))
    limits = [f"{word} at {card[key]} °C" for word, key in known if card.get(key) is not None]
    return f" (it {' and '.join(limits)})" if limits else ""


def _margin(card: Card) -> str:
    margin = card.get("margin_c")
    return "" if margin is None else f", {max(0, margin)} °C below where it slows down"

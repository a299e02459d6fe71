"""Rules on cards: whether they answer, persistence mode, heat and power."""

from collections.abc import Iterator
from typing import ClassVar

from servers.judge.memory.hardware.finding import (
    Card,
    HardwareFinding,
    HardwareSample,
    Lasting,
    Often,
    Severity,
    build_card_finding,
    uuid,
)

# A reset takes a card away for some seconds, on purpose.
_LOST_AFTER = 5.0
_ODD_AFTER = 30.0
_PERSISTENCE_AFTER = 30.0

_BACK = (
    "Stop what uses it and restart the box, best by taking its power away. If it happens again, "
    "look at its power cables and its slot, and swap it with another card to see whether the "
    "fault goes with it."
)


class Answers:
    """Sources: NVML's return codes 15 (lost) and 16 (reset required), nvml.h."""

    ids: ClassVar[tuple[str, ...]] = ("gpu_lost", "gpu_reset", "gpu_answer")
    needs_cards: ClassVar[bool] = True

    def __init__(self) -> None:
        self._known: dict[str, Card] = {}  # of this boot
        self._lost = Lasting(enter=_LOST_AFTER, leave=_LOST_AFTER)
        self._reset = Lasting(enter=_LOST_AFTER, leave=_LOST_AFTER)
        self._odd = Lasting(enter=_ODD_AFTER, leave=_ODD_AFTER)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        listed = {uuid(card): card for card in now.cards}
        # One that has not told its UUID yet may turn out to be any of the others.
        self._known |= {key: card for key, card in listed.items() if card.get("uuid")}
        for key, card in (listed | self._known).items():
            kind = _kind(card) if key in listed else "missing"
            if since := self._lost.find_start(key, now.t, kind in ("lost", "missing")):
                why = (
                    "The driver no longer lists this GPU, which it had earlier in this boot."
                    if kind == "missing"
                    else "NVML answers that this GPU is lost: it fell off the bus, or was taken away."
                )
                yield build_card_finding(
                    card, "gpu_lost", "critical", since,
                    title="no longer answers", because=why, advice=_BACK,
                )  # fmt: skip
            if since := self._reset.find_start(key, now.t, kind == "reset"):
                yield build_card_finding(
                    card, "gpu_reset", "critical", since,
                    title="needs a reset",
                    because="NVML answers that nothing works on this GPU before it is reset.",
                    advice="Stop what uses it, then run “sudo nvidia-smi --gpu-reset -i "
                    f"{card.get('index')}”, or restart the box.",
                )  # fmt: skip
            if since := self._odd.find_start(key, now.t, kind == "odd"):
                yield build_card_finding(
                    card, "gpu_answer", "warning", since,
                    title="gives an unexpected answer",
                    because=str(card.get("fault")),
                    advice="Compare with “nvidia-smi -q” on the box, and look for lines with NVRM "
                    "in “sudo dmesg”. A restart of the box often ends it.",
                )  # fmt: skip


def _kind(card: Card) -> str | None:
    """Recordings of earlier versions have the sentence alone."""
    if not card.get("fault"):
        return None
    return card.get("fault_kind") or ("odd" if card.get("total") is not None else "lost")


class Persistence:
    """Source: NVIDIA's driver persistence guide: without it the driver lets go of an idle card."""

    ids: ClassVar[tuple[str, ...]] = ("persistence",)
    needs_cards: ClassVar[bool] = True

    def __init__(self) -> None:
        self._off = Lasting(enter=_PERSISTENCE_AFTER, leave=0)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for card in now.cards:
            mode = card.get("persistence")
            is_off = None if mode is None or card.get("kind") == "unified" else not mode
            if since := self._off.find_start(uuid(card), now.t, is_off):
                yield build_card_finding(
                    card, "persistence", "info", since,
                    title="has persistence mode off",
                    because="While unused, the driver puts this GPU to sleep: the next start "
                    "waits some seconds for it to wake, and its ECC counts begin anew.",
                    advice="For now: “sudo nvidia-smi -pm 1”. For good: “sudo systemctl enable "
                    "--now nvidia-persistenced”.",
                )  # fmt: skip


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


# Parts of the last minute.
_POWER_WINDOW, _SOME_POWER, _NO_POWER, _MUCH_POWER = 60.0, 0.1, 0.02, 0.5

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
        self._braked = Often(window=_POWER_WINDOW, enter=_SOME_POWER, leave=_NO_POWER)
        self._mostly = Often(window=_POWER_WINDOW, enter=_MUCH_POWER, leave=_MUCH_POWER / 2)

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
        self._stuck = Often(window=_POWER_WINDOW, enter=_STUCK, leave=_WELL)
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
                    because=f"Busy it ran at {self._seen[key]}, and no reason is reported; at work a "
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

"""The PCIe link of a card: as fast as it could be, and without errors."""

from collections import deque
from collections.abc import Iterator
from typing import ClassVar

from servers.judge.memory.hardware.duration import Lasting, Often
from servers.judge.memory.hardware.finding import HardwareFinding, Severity
from servers.judge.memory.hardware.sample import Card, HardwareSample, build_card_finding, uuid

# An idle link drops to its first generation on purpose. Under load (percent) it may not.
_LOAD = 50
_WINDOW, _LOW, _WELL = 20.0, 0.9, 0.5

# DCGM calls more than eight replays a minute a fault; over five minutes, so that one burst is none.
_REPLAYS_A_MINUTE = 8
_REPLAYS_WITHIN = 300.0
_REPLAYS_CALM = 600.0

_SEAT = (
    "Shut the box down and seat the card and its riser anew; then see in the BIOS whether the "
    "slot is set to its full width and generation, and whether it shares lanes with another one."
)


_LANES = (
    "Many boards give a card half its lanes when two slots are in use; then all is well. If not: "
)


class Link:
    """Told of the last load; what was told holds until the next load shows better."""

    ids: ClassVar[tuple[str, ...]] = ("pcie_link",)
    needs_cards: ClassVar[bool] = True

    def __init__(self) -> None:
        self._low = Often(window=_WINDOW, enter=_LOW, leave=_WELL)
        self._seen: dict[str, tuple[Severity, str]] = {}  # at the last load

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for card in now.cards:
            key, is_low = uuid(card), _is_low(card)
            since = self._low.current(key)
            if is_low is not None:
                since = self._low.find_start(key, now.t, is_low)
                if is_low:
                    self._seen[key] = _severity(card), _figures(card)
            if since is not None:
                severity, figures = self._seen[key]
                yield build_card_finding(
                    card, "pcie_link", severity, since,
                    title="has a slow PCIe link" if severity == "warning" else "has half its lanes",
                    because=f"Under load its link ran at {figures}. Models load slower, "
                    "and with several GPUs every token waits for it.",
                    advice=_SEAT if severity == "warning" else _LANES + _SEAT,
                )  # fmt: skip


def _is_low(card: Card) -> bool | None:
    """None: not under load, or not told."""
    names = ("util", "pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max")
    values = [card.get(each) for each in names]
    if card.get("kind") == "unified" or None in values:
        return None
    util, gen, gen_max, width, width_max = (int(value or 0) for value in values)
    if util < _LOAD:
        return None
    return gen < gen_max or width < width_max


def _severity(card: Card) -> Severity:
    """Half the width at full speed is what many boards are built for."""
    is_fast = card["pcie_gen"] >= card["pcie_gen_max"]
    is_half = card["pcie_width"] * 2 >= card["pcie_width_max"]
    return "info" if is_fast and is_half else "warning"


def _figures(card: Card) -> str:
    now = f"Gen{card.get('pcie_gen')} ×{card.get('pcie_width')}"
    return f"{now} instead of Gen{card.get('pcie_gen_max')} ×{card.get('pcie_width_max')}"


class Replays:
    ids: ClassVar[tuple[str, ...]] = ("pcie_replays",)
    needs_cards: ClassVar[bool] = True

    def __init__(self) -> None:
        self._counts: dict[str, deque[tuple[float, int]]] = {}
        self._many = Lasting(enter=0, leave=_REPLAYS_CALM)
        self._most: dict[str, float] = {}

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for card in now.cards:
            count = card.get("pcie_replays")
            if count is None:
                continue
            key = uuid(card)
            rate = self._rate(key, now.t, count)
            is_many = rate > _REPLAYS_A_MINUTE
            if since := self._many.find_start(key, now.t, is_many):
                if is_many:
                    self._most[key] = rate
                yield build_card_finding(
                    card, "pcie_replays", "warning", since,
                    title="has errors on its PCIe link",
                    because=f"{self._most[key]:.0f} packets a minute had to be sent again "
                    f"({count} since the driver was loaded).",
                    advice="Nothing is lost, but the link is not sound. " + _SEAT,
                )  # fmt: skip

    def _rate(self, key: str, t: float, count: int) -> float:
        """A minute, over the last five."""
        counts = self._counts.setdefault(key, deque())
        if counts and (count < counts[-1][1] or t < counts[-1][0]):
            counts.clear()  # the driver was loaded anew, or the clock was set back
        # Only changes are kept, and the last value before them.
        if not counts or count != counts[-1][1]:
            counts.append((t, count))
        while len(counts) > 1 and counts[1][0] <= t - _REPLAYS_WITHIN:
            counts.popleft()
        first = counts[0][1]
        return (count - first) / (_REPLAYS_WITHIN / 60)

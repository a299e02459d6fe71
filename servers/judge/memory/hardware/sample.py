"""One sample of a box's collector, as the rules look at it."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol

from servers.judge.memory.hardware.finding import HardwareFinding, Severity

GIB = 2**30

type Card = Mapping[str, Any]


class HardwareSample:
    """Keys that an older recording lacks are None here, and accuse nobody."""

    def __init__(self, sample: Mapping[str, Any]) -> None:
        self.sample = sample
        # A sample that is repeated because the collector hangs keeps its time.
        self.t = float(sample["t"]) + float(sample.get("stale_s") or 0)
        self.cards: list[Card] = list(sample.get("gpus") or [])

    @property
    def is_blind(self) -> bool:
        """Whether nothing is known of the cards now."""
        return self.sample.get("collector_ok") is False or self.sample.get("stale_s") is not None

    @property
    def is_unified(self) -> bool:
        return any(card.get("kind") == "unified" for card in self.cards)


def uuid(card: Card) -> str:
    """The card's UUID; its place where it has none."""
    return str(card.get("uuid") or f"gpu-{card.get('index')}")


def name(card: Card) -> str:
    return f"GPU {card.get('index')}"


def build_card_finding(
    card: Card, rule: str, severity: Severity, since: float, **words: str
) -> HardwareFinding:
    """A finding about a card; `words` are title (after the card's name), because and advice."""
    words["title"] = f"{name(card)} {words['title']}"
    return HardwareFinding(rule=rule, subject=uuid(card), severity=severity, since=since, **words)


class HardwareRule(Protocol):
    """Looks at every sample in its order, and says what is wrong now."""

    ids: ClassVar[tuple[str, ...]]  # of RULES
    needs_cards: ClassVar[bool]  # not asked while nothing is known of the cards

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]: ...

"""The judge of a box's hardware: every rule over every sample."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from servers.judge.memory.hardware.cards import (
    Answers,
    Driver,
    EccRule,
    LowPower,
    Persistence,
    PowerBrake,
    RemappedRowsRule,
    RetiredPagesRule,
    Silence,
    Thermal,
)
from servers.judge.memory.hardware.finding import (
    Card,
    HardwareFinding,
    HardwareRule,
    HardwareSample,
    worst_first,
)
from servers.judge.memory.hardware.machine import (
    Disks,
    DriverMemory,
    Link,
    PressureRule,
    Replays,
    Swap,
    XidRule,
)
from servers.judge.messages import Sentence, say

ALL: tuple[Callable[[], HardwareRule], ...] = (
    *(Answers, Driver, Silence, XidRule, DriverMemory, EccRule, RemappedRowsRule, RetiredPagesRule),
    *(Thermal, PowerBrake, LowPower, Link, Replays, Persistence),
    *(PressureRule, Swap, Disks),
)


class HardwareJudge:
    """Judges a box's samples in their order; one a second is what the rules expect."""

    def __init__(self) -> None:
        self._boot: object = None
        self._begin()

    def _begin(self) -> None:
        self._rules = [make() for make in ALL]
        self._said: dict[int, list[HardwareFinding]] = {}  # by the rule's place

    def step(self, sample: Mapping[str, Any]) -> list[HardwareFinding]:
        """What is wrong now, the worst first. `disks` of the sample are those of Supplies.

        A restart of the box begins anew. While nothing is known of the cards, what was said of
        them last holds. What a sample lacks is not known, and accuses nobody.
        """
        boot = sample.get("boot_id")
        if boot is not None and boot != self._boot:
            if self._boot is not None:
                self._begin()
            self._boot = boot
        now = HardwareSample(sample)
        for place, rule in enumerate(self._rules):
            if not (rule.needs_cards and now.is_blind):
                self._said[place] = list(rule.step(now))
        return worst_first(each for said in self._said.values() for each in said)


@dataclass(frozen=True, kw_only=True)
class CheckedPart:
    code: str  # of its message
    what: str
    unseen: str = ""  # why it, or a part of it, cannot be seen; "" = it can

    @property
    def is_seen(self) -> bool:
        return not self.unseen


def list_checked_parts(sample: Mapping[str, Any]) -> tuple[CheckedPart, ...]:
    """Of a judged sample, in the order in which people care."""
    cards: list[Card] = list(sample.get("gpus") or [])
    found = [_part(say("memory.checked-driver"), _driver(sample))]
    if cards:
        found += [_part(say("memory.checked-xids"), _xids(sample)), *_of_cards(cards)]
    for name, said in (
        ("pressure", say("memory.checked-pressure")),
        ("swap", say("memory.checked-swap")),
    ):
        found.append(_part(said, "" if sample.get(name) is not None else said.text))
    found.append(_part(say("memory.checked-disks"), _disks(sample.get("disks") or {})))
    return tuple(found)


def _part(said: Sentence, unseen: str) -> CheckedPart:
    return CheckedPart(code=said.code, what=said.title, unseen=unseen)


def _driver(sample: Mapping[str, Any]) -> str:
    if sample.get("error_kind") == "no_library":
        return say("memory.unseen-library").text
    return "" if sample.get("collector_ok", True) else str(sample.get("error") or "")


def _xids(sample: Mapping[str, Any]) -> str:
    unseen = sample.get("unseen")
    if unseen is None:
        return say("memory.unseen-xids").text
    nvml, log = unseen.get("nvml_xids"), unseen.get("kernel_log")
    if nvml and log:
        return f"{nvml} {log}"
    if log:
        return f"{say('memory.unseen-xids-before')} {log}"
    if nvml:
        return f"{say('memory.unseen-xids-of-nvml')} {nvml}"
    return ""


def _disks(disks: Mapping[str, Any]) -> str:
    names = {
        "images": say("memory.folder-images").text,
        "cache": say("memory.folder-models").text,
        "shm": "/dev/shm",  # noqa: S108
    }
    missing = [words for name, words in names.items() if name not in disks]
    return say("memory.unseen-disks", folders=_and(missing)).text if missing else ""


def _of_cards(cards: list[Card]) -> Iterator[CheckedPart]:
    yield _part(say("memory.checked-ecc"), _silent(cards, "ecc"))
    yield _part(say("memory.checked-rows"), _silent(cards, "rows", "retired"))
    unseen = _silent(cards, "throttle") or _silent(cards, "temperature_c")
    yield _part(say("memory.checked-heat"), unseen)
    if own := [card for card in cards if card.get("kind") != "unified"]:
        yield _part(say("memory.checked-links"), _silent(own, "pcie_gen"))
    else:
        on_chip = say("memory.checked-links-on-chip")
        yield _part(on_chip, on_chip.text)
    yield _part(say("memory.checked-persistence"), _silent(cards, "persistence"))


def _silent(cards: list[Card], *names: str) -> str:
    """Which cards report none of these."""
    found = [card for card in cards if all(card.get(name) is None for name in names)]
    if not found:
        return ""
    if len(found) == len(cards):
        return say("memory.unseen-gpu" if len(cards) == 1 else "memory.unseen-gpus").text
    which = _and([str(card.get("index")) for card in found])
    return say("memory.unseen-gpus-of", gpus=which).text


def _and(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]

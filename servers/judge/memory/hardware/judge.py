"""The judge of a box's hardware: every rule over every sample."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from servers.judge.memory.hardware.cards import Answers, LowPower, Persistence, PowerBrake, Thermal
from servers.judge.memory.hardware.events import DriverMemory, XidRule
from servers.judge.memory.hardware.finding import (
    Card,
    HardwareFinding,
    HardwareRule,
    HardwareSample,
    worst_first,
)
from servers.judge.memory.hardware.machine import Disks, Link, PressureRule, Replays, Swap
from servers.judge.memory.hardware.memory_errors import (
    Driver,
    EccRule,
    RemappedRowsRule,
    RetiredPagesRule,
    Silence,
)

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


_ON_CHIP = "A GPU on the chip has none."


@dataclass(frozen=True, kw_only=True)
class CheckedPart:
    what: str
    unseen: str = ""  # why it, or a part of it, cannot be seen; "" = it can

    @property
    def is_seen(self) -> bool:
        return not self.unseen


def list_checked_parts(sample: Mapping[str, Any]) -> tuple[CheckedPart, ...]:
    """Of a judged sample, in the order in which people care."""
    cards: list[Card] = list(sample.get("gpus") or [])
    found = [CheckedPart(what="the driver and its library", unseen=_driver(sample))]
    if cards:
        found += [CheckedPart(what="XID errors", unseen=_xids(sample)), *_of_cards(cards)]
    found.append(_plain("memory pressure", sample, "pressure", "The kernel does not measure it."))
    found.append(_plain("swap", sample, "swap", "The kernel does not report it."))
    disks = sample.get("disks")
    names = {"images": "Docker's folder", "cache": "the models' folder", "shm": "/dev/shm"}  # noqa: S108
    missing = [words for name, words in names.items() if name not in (disks or {})]
    unseen = f"Not known of {_and(missing)}." if missing else ""
    found.append(CheckedPart(what="disks", unseen=unseen))
    return tuple(found)


def _driver(sample: Mapping[str, Any]) -> str:
    if sample.get("error_kind") == "no_library":
        return "NVIDIA's library is not here, so no GPU is looked at."
    return "" if sample.get("collector_ok", True) else str(sample.get("error") or "")


def _xids(sample: Mapping[str, Any]) -> str:
    unseen = sample.get("unseen")
    if unseen is None:
        return "The collector does not report it."
    nvml, log = unseen.get("nvml_xids"), unseen.get("kernel_log")
    if nvml and log:
        return f"{nvml} {log}"
    if log:
        return f"NVML reports them, but only what comes while inferdash runs. {log}"
    if nvml:
        return f"The kernel's log has them. {nvml}"
    return ""


def _of_cards(cards: list[Card]) -> Iterator[CheckedPart]:
    yield _each("errors of GPU memory (ECC)", cards, "ecc")
    yield CheckedPart(what="replaced rows and pages", unseen=_silent(cards, "rows", "retired"))
    yield CheckedPart(
        what="temperatures and clocks held back",
        unseen=_silent(cards, "throttle") or _silent(cards, "temperature_c"),
    )
    own = [card for card in cards if card.get("kind") != "unified"]
    yield (
        _each("PCIe links under load", own, "pcie_gen")
        if own
        else CheckedPart(what="PCIe links", unseen=_ON_CHIP)
    )
    yield _each("persistence mode", cards, "persistence")


def _each(what: str, cards: list[Card], name: str) -> CheckedPart:
    return CheckedPart(what=what, unseen=_silent(cards, name))


def _silent(cards: list[Card], *names: str) -> str:
    """Which cards tell none of these."""
    found = [card for card in cards if all(card.get(name) is None for name in names)]
    if not found:
        return ""
    if len(found) == len(cards):
        return "The GPU does not report it." if len(cards) == 1 else "The GPUs do not report it."
    which = _and([str(card.get("index")) for card in found])
    return f"GPU {which} does not report it."


def _plain(what: str, sample: Mapping[str, Any], name: str, why: str) -> CheckedPart:
    return CheckedPart(what=what, unseen="" if sample.get(name) is not None else why)


def _and(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]

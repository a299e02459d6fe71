"""The judge of a box's hardware: every rule over every sample."""

from collections.abc import Callable, Mapping
from typing import Any

from servers.judge.memory.hardware.cards import Answers, Persistence
from servers.judge.memory.hardware.disks import Disks
from servers.judge.memory.hardware.driver import Driver, Silence
from servers.judge.memory.hardware.events import DriverMemory, XidRule
from servers.judge.memory.hardware.finding import HardwareFinding, worst_first
from servers.judge.memory.hardware.heat import Thermal
from servers.judge.memory.hardware.link import Link, Replays
from servers.judge.memory.hardware.machine import PressureRule, Swap
from servers.judge.memory.hardware.memory_errors import (
    EccRule,
    RemappedRowsRule,
    RetiredPagesRule,
)
from servers.judge.memory.hardware.power import LowPower, PowerBrake
from servers.judge.memory.hardware.sample import HardwareRule, HardwareSample

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

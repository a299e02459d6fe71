"""A box's hardware as its pages show it: what is wrong, and what was looked at."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servers.judge.memory.hardware import (
    SEVERITIES,
    CheckedPart,
    HardwareFinding,
    list_checked_parts,
    worst_first,
)
from servers.judge.memory.orphans import holds_memory
from servers.judge.memory.verdicts import ALARMS


@dataclass(frozen=True, kw_only=True)
class HardwareReport:
    is_judged: bool  # not before the watcher's first look
    findings: tuple[HardwareFinding, ...] = ()  # the worst first
    looked: tuple[CheckedPart, ...] = ()
    # What holds memory without a run, in a few words each: the cards are sound, the box is not well.
    orphans: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong, as far as is known."""
        return self.is_judged and not self.findings and not self.orphans

    @property
    def faults(self) -> tuple[HardwareFinding, ...]:
        """Without what is only worth knowing."""
        return tuple(each for each in self.findings if each.severity != "info")

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """How many of each severity there are, without what is only worth knowing."""
        found = Counter(each.severity for each in self.faults)
        return tuple((severity, found[severity]) for severity in SEVERITIES if found[severity])

    @property
    def seen(self) -> tuple[CheckedPart, ...]:
        return tuple(each for each in self.looked if each.is_seen)

    @property
    def unseen(self) -> tuple[CheckedPart, ...]:
        return tuple(each for each in self.looked if not each.is_seen)

    def worst_of(self, card: str) -> HardwareFinding | None:
        """What a mark on this card tells."""
        return next((each for each in self.faults if each.subject == card), None)


def hardware(
    sample: Mapping[str, Any] | None, left_behind: Sequence[Mapping[str, Any]] = ()
) -> HardwareReport:
    """Of a judged sample; None: there is none. `left_behind`: the box's Left, as JSON."""
    orphans = (*_list_orphan_verdicts(sample or {}), *_list_left_behind(left_behind))
    if sample is None or "findings" not in sample:
        return HardwareReport(is_judged=False, orphans=orphans)
    findings = [HardwareFinding.from_json(each) for each in sample["findings"]]
    return HardwareReport(
        is_judged=True,
        findings=tuple(worst_first(findings)),
        looked=list_checked_parts(sample),
        orphans=orphans,
    )


def _list_orphan_verdicts(sample: Mapping[str, Any]) -> Iterator[str]:
    """Of the verdicts on memory that alarm: an engine's that is gone, or nobody's."""
    indices = {card.get("uuid"): card.get("index") for card in sample.get("gpus") or ()}
    for each in sample.get("verdicts") or ():
        if each["verdict"] in ALARMS and each["gpu"] in indices:
            yield f"memory without a run on GPU {indices[each['gpu']]}"


def _list_left_behind(left_behind: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in left_behind:
        if holds_memory(each):
            yield f"{each['what']}, left behind"

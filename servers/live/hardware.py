"""A box's hardware as its pages show it: what is wrong, and what was looked at."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servers.judge.hardware import SEVERITIES, Finding, Looked, looked, worst_first


@dataclass(frozen=True, kw_only=True)
class Hardware:
    is_judged: bool  # not before the watcher's first look
    findings: tuple[Finding, ...] = ()  # the worst first
    looked: tuple[Looked, ...] = ()

    @property
    def faults(self) -> tuple[Finding, ...]:
        """Without what is only worth knowing."""
        return tuple(each for each in self.findings if each.severity != "info")

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """How many of each severity there are, without what is only worth knowing."""
        found = Counter(each.severity for each in self.faults)
        return tuple((severity, found[severity]) for severity in SEVERITIES if found[severity])

    @property
    def seen(self) -> tuple[Looked, ...]:
        return tuple(each for each in self.looked if each.is_seen)

    @property
    def unseen(self) -> tuple[Looked, ...]:
        return tuple(each for each in self.looked if not each.is_seen)

    def worst_of(self, card: str) -> Finding | None:
        """What a mark on this card tells."""
        return next((each for each in self.faults if each.subject == card), None)


def hardware(sample: Mapping[str, Any] | None) -> Hardware:
    """Of a judged sample; None: there is none."""
    if sample is None or "findings" not in sample:
        return Hardware(is_judged=False)
    findings = [Finding.from_json(each) for each in sample["findings"]]
    return Hardware(is_judged=True, findings=tuple(worst_first(findings)), looked=looked(sample))

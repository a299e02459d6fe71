"""A finding about hardware, as a person reads it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

type Severity = Literal["info", "warning", "critical"]

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")  # worst first
BOX = "box"  # the subject of what is not about one card or folder


@dataclass(frozen=True, kw_only=True)
class HardwareFinding:
    """Rule and subject together name it for as long as it lasts."""

    rule: str  # a key of RULES
    subject: str  # a GPU's UUID, BOX, or a folder
    severity: Severity
    title: str  # short; names the card or the folder
    because: str  # a sentence with the figures
    advice: str  # what to do
    since: float  # unix seconds

    @property
    def key(self) -> tuple[str, str]:
        return self.rule, self.subject

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "HardwareFinding":
        """Of to_json(); keys that this version does not know are left out."""
        values = {name: said[name] for name in cls.__dataclass_fields__}
        values["severity"] = cast(Severity, values["severity"])
        return cls(**values)


def worst_first(findings: Iterable[HardwareFinding]) -> list[HardwareFinding]:
    """By severity; among equals the newest first."""
    return sorted(findings, key=lambda each: (SEVERITIES.index(each.severity), -each.since))

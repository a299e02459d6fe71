"""Hardware health, by the collector's samples alone. See docs/health.md."""

from servers.judge.memory.hardware.checked import CheckedPart, list_checked_parts
from servers.judge.memory.hardware.finding import (
    BOX,
    SEVERITIES,
    HardwareFinding,
    Severity,
    worst_first,
)
from servers.judge.memory.hardware.judge import HardwareJudge
from servers.judge.memory.hardware.rules import RULES

__all__ = [
    "BOX",
    "RULES",
    "SEVERITIES",
    "HardwareFinding",
    "HardwareJudge",
    "CheckedPart",
    "Severity",
    "list_checked_parts",
    "worst_first",
]

"""Hardware health, by the collector's samples alone. See docs/health.md."""

from servers.judge.memory.hardware.finding import (
    BOX,
    RULES,
    SEVERITIES,
    HardwareFinding,
    Severity,
    worst_first,
)
from servers.judge.memory.hardware.judge import CheckedPart, HardwareJudge, list_checked_parts

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

"""Whether a box's hardware is well, by the collector's samples alone. See docs/health.md."""

from servers.judge.hardware.finding import BOX, SEVERITIES, Finding, Severity, worst_first
from servers.judge.hardware.judge import Hardware
from servers.judge.hardware.looked import Looked, looked
from servers.judge.hardware.rules import RULES

__all__ = [
    "BOX",
    "RULES",
    "SEVERITIES",
    "Finding",
    "Hardware",
    "Looked",
    "Severity",
    "looked",
    "worst_first",
]

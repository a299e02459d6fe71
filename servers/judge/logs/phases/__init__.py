"""Phases of a start, by what the engine logs."""

from servers.judge.logs.phases.progress import (
    COARSE,
    PHASES,
    PhaseMoment,
    PhaseProgress,
    PhaseRank,
    ProgressBar,
)
from servers.judge.logs.phases.reader import Reader, order, read

__all__ = [
    "COARSE",
    "PHASES",
    "ProgressBar",
    "PhaseMoment",
    "PhaseProgress",
    "PhaseRank",
    "Reader",
    "order",
    "read",
]

"""Which phases a start has reached, by what its engine logs."""

from servers.judge.phases.progress import COARSE, PHASES, Bar, Moment, Progress, Rank
from servers.judge.phases.reader import Reader, read
from servers.judge.phases.rules import order

__all__ = ["COARSE", "PHASES", "Bar", "Moment", "Progress", "Rank", "Reader", "order", "read"]

"""Which phases a start has reached, by what its engine logs."""

from servers.judge.phases.progress import COARSE, PHASES, Bar, Moment, Progress, Rank
from servers.judge.phases.reader import Reader, read

__all__ = ["COARSE", "PHASES", "Bar", "Moment", "Progress", "Rank", "Reader", "read"]

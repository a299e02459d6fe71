"""Parts of the pages that list what lies on disks: a disk's use, a kind to choose."""

from dataclasses import dataclass

# Percent of a disk from which on a page marks it.
FULL, NEARLY_FULL = 97, 90


@dataclass(frozen=True, kw_only=True)
class DiskUse:
    path: str  # of a folder on it
    total: int
    free: int
    known: int  # bytes of what the page lists

    @property
    def percent(self) -> int:
        return round(100 * (self.total - self.free) / self.total) if self.total else 0

    @property
    def share(self) -> int:
        """Percent that the page’s own things take."""
        return min(self.percent, round(100 * self.known / self.total)) if self.total else 0

    @property
    def tone(self) -> str:
        if self.percent >= FULL:
            return "failed"
        return "attention" if self.percent >= NEARLY_FULL else ""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A kind of rows that a list can be narrowed to, and how many there are."""

    key: str
    words: str
    count: int

"""The report on a box's reboot: servers that came back, wait, or failed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

# How long it is told after all is settled.
TOLD_FOR = timedelta(days=1)

PARTS = {"driver": "the NVIDIA driver", "docker": "Docker", "kernel": "the kernel"}

type Where = Literal["back", "starting", "waiting", "not"]


@dataclass(frozen=True, kw_only=True)
class ServerAfterReboot:
    """What became of one server that was wanted when its box was restarted."""

    server: str  # its slug
    where: Where
    why: str = ""  # a sentence; "": there is nothing to add
    has_failed: bool = False  # it was to come back, and did not


@dataclass(frozen=True, kw_only=True)
class RebootReport:
    box: str
    booted_at: datetime
    fates: tuple[ServerAfterReboot, ...]
    upgraded: tuple[str, ...]  # "the NVIDIA driver is 590.44 now, and was 580.95"

    def list_servers(self, where: Where) -> tuple[ServerAfterReboot, ...]:
        return tuple(fate for fate in self.fates if fate.where == where)

    @property
    def back(self) -> tuple[ServerAfterReboot, ...]:
        return self.list_servers("back")

    @property
    def starting(self) -> tuple[ServerAfterReboot, ...]:
        return self.list_servers("starting")

    @property
    def waiting(self) -> tuple[ServerAfterReboot, ...]:
        return self.list_servers("waiting")

    @property
    def missing(self) -> tuple[ServerAfterReboot, ...]:
        return self.list_servers("not")

    @property
    def is_settled(self) -> bool:
        return not (self.starting or self.waiting)

    @property
    def level(self) -> str:
        """As notices have it: failed, attention where somebody did not come back, else nothing."""
        if any(fate.has_failed for fate in self.fates):
            return "failed"
        return "attention" if self.missing else ""

    def is_over(self, now: datetime) -> bool:
        """Whether all is said, and a day has passed."""
        return self.is_settled and now - self.booted_at > TOLD_FOR


def list_upgrades(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """What is of another version than before; what nobody could tell of is left out."""
    return tuple(
        f"{title} is {after[part]} now, and was {before[part]}"
        for part, title in PARTS.items()
        if before.get(part) and after.get(part) and before[part] != after[part]
    )


def in_order(fates: Iterable[ServerAfterReboot]) -> tuple[ServerAfterReboot, ...]:
    """Those that failed first: they are what somebody has to look at."""
    return tuple(sorted(fates, key=lambda fate: not fate.has_failed))

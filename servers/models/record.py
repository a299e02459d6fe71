"""What the runs of a profile have shown: how often it started, how fast, with how much memory."""

from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING

from servers.models.run import Run, State

if TYPE_CHECKING:
    from servers.models.profile import Profile

# Older runs were of other versions, images and drivers.
NEWEST = 50


@dataclass(frozen=True, kw_only=True)
class Record:
    """None: never measured."""

    starts: int  # that came to an end: ready, or failed before it
    ready: int
    time_to_ready: timedelta | None  # median
    tokens_per_second: float | None  # the most that was seen
    memory: int | None  # bytes, the most that was seen on all GPUs together

    @property
    def success(self) -> int | None:
        """Percent of the starts that reached ready."""
        return round(100 * self.ready / self.starts) if self.starts else None


def of(profile: "Profile") -> Record:
    """Of the newest runs. A start that somebody stopped before it was ready says nothing."""
    runs = list(Run.objects.filter(server__profile=profile).order_by("-pk")[:NEWEST])
    ready = [run for run in runs if run.ready_at]
    failed = [run for run in runs if not run.ready_at and run.state == State.FAILED]
    times = [took.total_seconds() for run in ready if (took := run.time_to_ready) is not None]
    return Record(
        starts=len(ready) + len(failed),
        ready=len(ready),
        time_to_ready=timedelta(seconds=median(times)) if times else None,
        tokens_per_second=max((run.peak_tokens_per_second or 0 for run in runs), default=0) or None,
        memory=max((run.peak_memory or 0 for run in runs), default=0) or None,
    )

"""Servers started on demand that may be stopped to make room for another.

Never one that a person has started, that is somebody else's, or that serves; of the others the one
first that was asked nothing for longest. Sizes are in bytes, times are aware.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from servers.judge.runs.gpu_conflicts import GpuConflict, GpuHolder

# Who has just become ready still waits for the request that it was started for.
FRESH = timedelta(seconds=30)


@dataclass(frozen=True, kw_only=True)
class OnDemandRun:
    """A run that a request has started, or that is told to stop."""

    run: int
    ready_at: datetime | None  # None: it is not ready, or not any more
    last_request_at: datetime | None
    requests_running: int | None  # None: the engine does not say
    is_passing: bool = False  # the gateway is passing a request on to it

    def idle_since(self, now: datetime) -> datetime | None:
        """Since when nobody has asked it anything; None: it serves, or is about to."""
        if self.ready_at is None or self.requests_running or self.is_passing:
            return None
        if now - self.ready_at < FRESH and self.last_request_at is None:
            return None
        return max(self.last_request_at or self.ready_at, self.ready_at)


@dataclass(frozen=True, kw_only=True)
class IdleEviction:
    """What a start on request does about who is in its way."""

    stops: tuple[int, ...]  # runs, in this order
    in_the_way: tuple[GpuHolder, ...]  # of whom nobody knows that they will go away


def room(
    found: GpuConflict, served: Collection[OnDemandRun], *, lacking: int, now: datetime
) -> IdleEviction:
    """Whom to stop for a start that lacks so many bytes on all its GPUs together; 0: not known how
    many, then all that may be stopped are.

    Whoever loads, waits or serves a request is waited for. Measured memory decides how many are
    stopped: one whose memory nobody can tell counts for nothing.
    """
    by_run = {each.run: each for each in served}
    idle: list[tuple[datetime, GpuHolder]] = []
    in_the_way: list[GpuHolder] = []
    for holder in found.holders:
        mine = by_run.get(holder.other.run) if holder.other is not None else None
        if holder.kind == "process" or (holder.kind == "server" and mine is None):
            in_the_way.append(holder)
        elif mine is not None and (since := mine.idle_since(now)) is not None:
            idle.append((since, holder))
    idle.sort(key=lambda each: each[0])
    stops: list[int] = []
    freed = 0
    for _since, holder in idle:
        if holder.other is None or (lacking and freed >= lacking):
            break
        stops.append(holder.other.run)
        freed += holder.held or 0
    would_do = lacking and freed >= lacking
    return IdleEviction(stops=tuple(stops), in_the_way=() if would_do else tuple(in_the_way))

"""Servers that die again and again, judged over their last lives and not by the newest alone."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from servers.models import Run, Server
from servers.models.runs.run import ACTIVE, STEADY, RunState

# Ends in a row that make a loop, and how long the oldest of them counts.
LOOP = 3
WINDOW = timedelta(hours=1)
# Lives that are looked at: more says no more.
MOST = 12


@dataclass(frozen=True, kw_only=True)
class Deaths:
    """Ends that nobody asked for, one after the other."""

    count: int = 0
    was_ready: bool = False  # one of them was ready before it ended
    last: datetime | None = None

    @property
    def is_loop(self) -> bool:
        return self.count >= LOOP


NONE = Deaths()


def count(server: Server) -> Deaths:
    """The latest ends in a row of this server. Whoever served for STEADY has recovered."""
    now = timezone.now()
    found: list[Run] = []
    for run in server.runs.order_by("-pk")[:MOST]:
        if run.state in ACTIVE:
            if run.ready_at and now - run.ready_at >= STEADY:
                return NONE
            continue
        is_unasked = run.state == RunState.FAILED and run.stopped_by_id is None
        if not is_unasked or run.ended_at is None or now - run.ended_at > WINDOW:
            break
        if run.ready_at and run.ended_at - run.ready_at >= STEADY:
            found.append(run)  # it was well until then, and its end is the first of them
            break
        found.append(run)
    return Deaths(
        count=len(found),
        was_ready=any(run.ready_at for run in found),
        last=found[0].ended_at if found else None,
    )


def explain(deaths: Deaths) -> str:
    """For the page of the run that goes on, or ended, after them."""
    return (
        f"It has ended {deaths.count} times in a row within an hour without being asked to, and "
        "was started again each time."
    )

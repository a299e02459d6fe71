"""The record of a profile's runs: starts, speed, memory."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from django.db.models import Q

from servers.judge.charts import ChartedStart
from servers.judge.runs import start_progress
from servers.lifecycle.runs import starts as run_starts
from servers.models import Profile, Run
from servers.models.runs.run import RunState

# Older runs were of other versions, images and drivers.
NEWEST = 50
CHARTED = 200


@dataclass(frozen=True, kw_only=True)
class ProfileRecord:
    """None: never measured."""

    starts: int  # that came to an end: ready, or failed before it
    ready: int
    time_to_ready: timedelta | None  # median
    tokens_per_second: float | None  # the most that was seen
    memory: int | None  # bytes, the most that was seen on all GPUs together

    @property
    def is_known(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.starts or self.tokens_per_second or self.memory)

    @property
    def success(self) -> int | None:
        """Percent of the starts that reached ready."""
        return round(100 * self.ready / self.starts) if self.starts else None


def compute_record(profile: Profile) -> ProfileRecord:
    """Of the newest runs. A start that somebody stopped before it was ready says nothing.

    What is only watched was started by others: it tells of speed and memory, and is no start.
    """
    runs = list(
        Run.objects.filter(server__profile=profile)
        .select_related("health")
        .order_by("-pk")[:NEWEST]
    )
    own = [run for run in runs if not run.is_watched]
    ready = [run for run in own if run.ready_at]
    failed = [run for run in own if not run.ready_at and run.state == RunState.FAILED]
    times = [took.total_seconds() for run in ready if (took := run.time_to_ready) is not None]
    return ProfileRecord(
        starts=len(ready) + len(failed),
        ready=len(ready),
        time_to_ready=timedelta(seconds=median(times)) if times else None,
        tokens_per_second=max((run.health.peak_tokens_per_second or 0 for run in runs), default=0)
        or None,
        memory=max((run.health.peak_memory or 0 for run in runs), default=0) or None,
    )


def starts(profile: Profile) -> list[ChartedStart]:
    """Its newest starts, the oldest first. One that was stopped before it was ready says nothing."""
    ended = Q(ready_at__isnull=False) | Q(state=RunState.FAILED, ended_at__isnull=False)
    # How long a start takes is told by those of others, too, where it was seen from its beginning.
    runs = Run.objects.filter(ended, server__profile=profile, saw_start=True).order_by("-pk")
    runs = runs.select_related("server__box", "version", "start").defer(
        "start__command", "start__docker_run", "failure_detail", "version__spec"
    )
    return [_start(run) for run in reversed(runs[:CHARTED])]


def _start(run: Run) -> ChartedStart:
    over = run.ready_at or run.ended_at
    assert over is not None
    return ChartedStart(
        run=run.pk,
        server=run.server.slug,
        box=run.server.box.slug,
        version=run.version.number,
        when=run.created_at,
        took=max((over - run.began_at).total_seconds(), 0.0),
        is_ready=run.ready_at is not None,
        parts=_parts(run, over),
    )


def _parts(run: Run, over: datetime) -> dict[str, float]:
    """Seconds of each state and phase until then; {} where no phase of the start is known."""
    if run.started_at is not None and not run_starts.read_progress(run).moments:
        return {}
    moments = [
        ("queued", run.began_at),
        ("pulling", run.start.pulling_at),
        ("creating", run.start.creating_at),
    ]
    # What it has waited for others is none of its start's.
    begins = [(name, max(at, run.began_at)) for name, at in moments if at is not None]
    ends = [*(at for _name, at in begins[1:]), run.started_at or over]
    before = {
        name: max((end - at).total_seconds(), 0.0)
        for (name, at), end in zip(begins, ends, strict=True)
    }
    return before | start_progress.durations(run_starts.list_stretches(run))

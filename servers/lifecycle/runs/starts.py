"""Starts of runs by their rows: phases, usual times, progress, deadlocks, and heads of Ray clusters."""

from collections.abc import Iterable
from datetime import datetime

from django.utils import timezone

from servers.judge.logs import parsing
from servers.judge.logs.phases import reader as phases
from servers.judge.logs.phases.progress import PhaseProgress
from servers.judge.logs.phases.reader import Reader
from servers.judge.runs import health, start_progress
from servers.judge.runs.start_progress import (
    StartProgress,
    Stretch,
    TimelineStep,
    WeightsDownload,
)
from servers.launch.commandline import clusters
from servers.launch.engines.launch import Launch
from servers.models import Run
from servers.models.runs.run import RunState


def read_progress(run: Run) -> PhaseProgress:
    return Reader.from_json(run.start.reader).progress if run.start.reader else PhaseProgress()


def read_download(run: Run) -> WeightsDownload | None:
    if run.start.download_began_at is None:
        return None
    return WeightsDownload(
        began=run.start.download_began_at,
        ended=run.start.download_ended_at,
        size=run.start.download_size or 0,
        total=run.start.download_total,
        rate=run.start.download_rate,
    )


def list_stretches(run: Run) -> tuple[Stretch, ...]:
    """The phases of its start; () before its container started."""
    if run.started_at is None:
        return ()
    return start_progress.stretches(
        read_progress(run),
        started=run.started_at,
        ended=run.ready_at or run.ended_at,
        download=read_download(run),
    )


def list_steps(run: Run) -> tuple[TimelineStep, ...]:
    """Its states, and the phases of its start, on a line."""
    moments: list[tuple[str, datetime | None]] = [
        (RunState.QUEUED, run.created_at),
        (RunState.PULLING, run.start.pulling_at),
        (RunState.CREATING, run.start.creating_at),
        (RunState.STARTING, run.started_at),
        (RunState.READY, run.ready_at),
    ]
    if run.is_watched:
        # Nobody has asked inferdash for it, and how long it took is known to who was there.
        moments = moments[3:] if run.saw_start or not run.ready_at else moments[4:]
    # Nobody waits for a pull that will not come, or for a stop that nobody asked for.
    moments = [each for each in moments if each[0] != RunState.PULLING or each[1]]
    if run.stopping_at is not None:
        moments.append((RunState.STOPPING, run.stopping_at))
    steps = start_progress.list_steps(
        moments, ended_at=run.ended_at, has_failed=run.state == RunState.FAILED
    )
    if not run.saw_start and run.ready_at:
        return steps
    order = phases.order(run.version.launch.engine)
    return start_progress.with_phases(steps, list_stretches(run), run.start.usual_phases, order)


def measure_progress(run: Run, launch: Launch, *, unified: bool) -> StartProgress | None:
    """Where the start is; None before the container's start, and after the run's."""
    found = list_stretches(run)
    if not found or run.ready_at or run.ended_at:
        return None
    return start_progress.where(
        found,
        read_progress(run),
        download=read_download(run),
        heard=run.start.last_output_at,
        usually=run.start.usual_phases,
        expected=launch.expected,
        engine=launch.engine,
        unified=unified,
        now=timezone.now(),
    )


def describe_deadlock(run: Run, *, unified: bool) -> tuple[str, str]:
    """What it looks like and what to do, where its GPUs give a deadlock away; else two ""."""
    heard = None if run.ready_at else run.start.last_output_at
    now = timezone.now()
    if run.ended_at or not health.is_stuck(run.health.spins_since, heard, unified=unified, now=now):
        return "", ""
    progress = read_progress(run)
    phase = "" if run.ready_at else progress.phase
    ranks = progress.facts.get("ranks", 0)
    cards = max(run.health.spinning_gpus, int(ranks) if isinstance(ranks, float) else 0)
    remedy = health.name_spinning_remedy(run.version.launch.engine, phase, unified=unified)
    return health.describe_spinning(phase, cards=cards), remedy


def find_log_remarks(run: Run) -> tuple[parsing.LogPatternRemark, ...]:
    """What its log has that it must not have, and once it is ready, what it lacks."""
    launch = run.version.launch
    wanted = launch.log_must if run.ready_at else ()
    return parsing.find_pattern_remarks(wanted, launch.log_must_not, run.log.found)


def list_ray_heads() -> list[int]:
    """Servers whose engines may have workers on other boxes, by their rows' numbers."""
    return [run.server_id for run in list_ray_runs()]


def list_ray_runs() -> Iterable[Run]:
    active = Run.objects.active().filter(server__removed_at=None)
    for run in active.select_related("server__box", "version").order_by("pk"):
        if clusters.uses_ray(run.launch, run.start.command):
            yield run

"""GPU conflicts of a start on its box, by rows and the newest sample."""

from collections.abc import Iterator
from datetime import timedelta

from django.utils import timezone

from servers.judge.memory import available
from servers.judge.profiles import admission
from servers.judge.profiles.facts import LaunchFacts
from servers.judge.profiles.subject import Subject
from servers.judge.runs.gpu_conflicts import (
    GpuConflict,
    GpuRequest,
    OtherRun,
    Patience,
    find_conflict,
)
from servers.judge.weights.fit.rooms import on_this_box
from servers.launch.engines.launch import Launch
from servers.lifecycle.profiles import checks
from servers.lifecycle.runs import gpu_assignment
from servers.lifecycle.runs.gpu_assignment import CardsError
from servers.models import Box, Run, Server
from servers.models.runs.run import ENDED
from servers.state import box_samples

# What has not come back by then is a matter for the box's page, and no longer waited for.
RETURNS_WITHIN = timedelta(minutes=10)


def before_start(launch: Launch, server: Server, known: checks.CheckReport) -> GpuConflict:
    """Who would be in the way of a start that nobody has made yet."""
    return _find_conflict(launch, server, known, "asked")


def find_run_conflict(run: Run) -> GpuConflict:
    """Who is in the way of a queued run, by how patient it is."""
    patience = _patience(run)
    if patience == "plain" and (run.despite or not run.server.box.is_unified):
        # Somebody has looked at what is there, and wanted it.
        return GpuConflict(start=GpuRequest(patience=patience, gpus=None), holders=())
    server = run.server
    known = checks.check_start(run.launch, server.box, server.profile, server)
    return _find_conflict(run.launch, server, known, patience, run)


def _patience(run: Run) -> Patience:
    if run.waits:
        return "told"
    return "auto" if run.tries else "plain"


def _find_conflict(
    launch: Launch,
    server: Server,
    known: checks.CheckReport,
    patience: Patience,
    run: Run | None = None,
) -> GpuConflict:
    box, fit = server.box, known.fit
    missing = _compute_shortfall(launch, known, box) if box.is_unified else 0
    start = GpuRequest(
        patience=patience,
        gpus=_find_wanted_gpus(launch, box, known.subject),
        is_unified=box.is_unified,
        fits={"fits": True, "tight": False, "no": False}.get(fit.verdict) if fit else None,
        is_short=bool(missing) or (fit is not None and fit.verdict == "no"),
        missing=missing,
        since=(run.created_at, run.pk) if run else None,
    )
    return find_conflict(start, tuple(_others(server, run)), box_samples.newest(box.slug))


def _compute_shortfall(launch: Launch, known: checks.CheckReport, box: Box) -> int:
    """Bytes of a shared pool that it lacks by the estimate, or by what its profile wants free."""
    free = available.free(box_samples.newest(box.slug), "all")
    wanted = launch.free_memory - min(free.values()) if free and launch.free_memory else 0
    if known.fit is None or known.fit.verdict != "no":
        return max(0, wanted)
    return max(wanted, known.fit.lacking, admission.compute_shortfall(LaunchFacts(known.subject)))


def _find_wanted_gpus(launch: Launch, box: Box, subject: Subject) -> frozenset[int] | None:
    """The GPUs that the engine would fill; None where that is not known."""
    if launch.gpus == "none":
        return frozenset()
    try:
        chosen = gpu_assignment.choose(launch, box)
    except CardsError:
        return None
    facts = LaunchFacts(subject)
    if chosen.replace(",", "").isdigit() and chosen != launch.gpus:
        return frozenset(map(int, chosen.split(",")))
    if facts.used_gpus is None:
        return None
    seen = [gpu.index for gpu in facts.used_gpus]
    return frozenset(seen[: on_this_box(facts) or None])


def _others(server: Server, run: Run | None) -> Iterator[OtherRun]:
    box = server.box
    for other in Run.objects.active().filter(server__box=box).select_related(*_WITH):
        if other.server_id != server.pk or (run is not None and other.pk != run.pk):
            yield _other(other, box, other.state)
    planned = Run.objects.filter(server__box=box, restart_at__isnull=False, state__in=ENDED)
    for other in planned.filter(server__removed_at=None).select_related(*_WITH):
        if other.server.run_id == other.pk and other.server_id != server.pk:
            yield _other(other, box, "planned")
    ended = Run.objects.filter(
        server__box=box,
        state__in=ENDED,
        released_at=None,
        memory_before__isnull=False,
        ended_at__gt=timezone.now() - RETURNS_WITHIN,
    )
    for other in ended.select_related(*_WITH):
        if other.release.outcome in ("", "releasing"):
            yield _other(other, box, "returning")


_WITH = ("server", "version", "started_by")


def _other(run: Run, box: Box, state: str) -> OtherRun:
    return OtherRun(
        run=run.pk,
        name=run.server.slug,
        by=run.started_by.username if run.started_by else "",
        since=run.created_at,
        state=state,
        gpus=_find_given_gpus(run, box),
        container=run.container_id,
        waits=run.waits,
        last_request_at=run.last_request_at,
        requests_running=run.requests_running,
        ready_at=run.ready_at,
        took=run.time_to_ready,
        is_watched=run.is_watched,
    )


def _find_given_gpus(run: Run, box: Box) -> frozenset[int] | None:
    """The GPUs that its engine fills, or will by its profile; None: not known."""
    found = box.indices(run.gpus or run.version.launch.gpus)
    count = on_this_box(LaunchFacts(Subject(launch=run.launch)))
    return frozenset(sorted(found)[:count]) if found and count else found

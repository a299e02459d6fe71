"""GPU conflicts of a start on its box, the GPU queue, and free memory."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from servers import events
from servers.host.kernel import resources
from servers.judge.memory import holders, pools
from servers.judge.profiles import admission
from servers.judge.profiles.facts import LaunchFacts, Subject
from servers.judge.runs import limits
from servers.judge.runs.gpu_conflicts import (
    GpuConflict,
    GpuRequest,
    OtherRun,
    Patience,
    find_conflict,
)
from servers.judge.weights.fit.result import on_this_box
from servers.launch.engines.placement import CardsError
from servers.lifecycle import memory
from servers.lifecycle.profiles import checks
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs import creation
from servers.lifecycle.runs.ownership import verb
from servers.lifecycle.runs.starts import SecretsError
from servers.models import AuditEntry, Box, Run
from servers.models.runs.run import ENDED, ManagedRun
from servers.state import samples

# What has not come back by then is a matter for the box's page, and no longer waited for.
RETURNS_WITHIN = timedelta(minutes=10)


def before_start(context: LaunchContext, known: checks.CheckReport) -> GpuConflict:
    """Who would be in the way of a start that nobody has made yet."""
    return _find_conflict(context, known, "asked")


def find_run_conflict(run: Run) -> GpuConflict:
    """Who is in the way of a queued run, by how patient it is."""
    patience = _patience(run)
    if patience == "plain" and (run.plan.overridden_errors or not run.server.box.is_unified):
        # Somebody has looked at what is there, and wanted it.
        return GpuConflict(start=GpuRequest(patience=patience, gpus=None), holders=())
    context = LaunchContext.of_server(run.server, run.launch)
    return _find_conflict(context, checks.check_start(context), patience, run)


def _patience(run: Run) -> Patience:
    if run.waits:
        return "told"
    return "auto" if run.plan.attempts else "plain"


def _find_conflict(
    context: LaunchContext, known: checks.CheckReport, patience: Patience, run: Run | None = None
) -> GpuConflict:
    box, fit = context.box, known.fit
    missing = _compute_shortfall(context, known) if box.is_unified else 0
    start = GpuRequest(
        patience=patience,
        gpus=_find_wanted_gpus(context, known.subject),
        is_unified=box.is_unified,
        fits={"fits": True, "tight": False, "no": False}.get(fit.verdict) if fit else None,
        is_short=bool(missing) or (fit is not None and fit.verdict == "no"),
        missing=missing,
        since=(run.created_at, run.pk) if run else None,
    )
    return find_conflict(start, tuple(_others(context, run)), context.sample)


def _compute_shortfall(context: LaunchContext, known: checks.CheckReport) -> int:
    """Bytes of a shared pool that it lacks by the estimate, or by what its profile wants free."""
    free, wanted = pools.compute_free(context.sample, "all"), context.launch.free_memory
    lacks = wanted - min(free.values()) if free and wanted else 0
    if known.fit is None or known.fit.verdict != "no":
        return max(0, lacks)
    return max(lacks, known.fit.lacking, admission.compute_shortfall(LaunchFacts(known.subject)))


def _find_wanted_gpus(context: LaunchContext, subject: Subject) -> frozenset[int] | None:
    """The GPUs that the engine would fill; None where that is not known."""
    wanted = context.launch.gpus
    if wanted == "none":
        return frozenset()
    try:
        chosen = context.choose_gpus()
    except CardsError:
        return None
    facts = LaunchFacts(subject)
    if chosen.replace(",", "").isdigit() and chosen != wanted:
        return frozenset(map(int, chosen.split(",")))
    if facts.used_gpus is None:
        return None
    seen = [gpu.index for gpu in facts.used_gpus]
    return frozenset(seen[: on_this_box(facts) or None])


def _others(context: LaunchContext, run: Run | None) -> Iterator[OtherRun]:
    box, server = context.box, context.server
    mine = server.pk if server is not None else None
    for other in context.active:
        if other.server_id != mine or (run is not None and other.pk != run.pk):
            yield _other(other, box, other.state)
    planned = Run.objects.filter(server__box=box, restart_at__isnull=False, state__in=ENDED)
    for other in planned.filter(server__removed_at=None).select_related(*_WITH):
        if other.server.run_id == other.pk and other.server_id != mine:
            yield _other(other, box, "planned")
    ended = Run.objects.filter(
        server__box=box,
        state__in=ENDED,
        released_at=None,
        start__memory_before__isnull=False,
        ended_at__gt=timezone.now() - RETURNS_WITHIN,
    )
    for other in ended.select_related(*_WITH):
        if memory.read_release(other).outcome in ("", "releasing"):
            yield _other(other, box, "returning")


_WITH = ("server", "version", "started_by", "start", "health")


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
        last_request_at=run.health.last_request_at,
        requests_running=run.health.requests_running,
        ready_at=run.ready_at,
        took=run.time_to_ready,
        is_watched=run.is_watched,
    )


def _find_given_gpus(run: Run, box: Box) -> frozenset[int] | None:
    """The GPUs that its engine fills, or will by its profile; None: not known."""
    found = box.indices(run.gpus or run.version.launch.gpus)
    count = on_this_box(LaunchFacts(Subject(launch=run.launch)))
    return frozenset(sorted(found)[:count]) if found and count else found


log = logging.getLogger(__name__)

PATIENCE = timedelta(minutes=10)
GIB = 2**30


def short_of(run: Run) -> str:
    """What its GPUs lack, in a sentence; "" when there is room, or nobody can tell.

    Raises CardsError when the box has not the GPUs.
    """
    wanted = run.version.launch.free_memory
    if not wanted:
        return ""
    gpus = creation.settle_gpus(run)
    found = (
        None if gpus == "none" else pools.compute_free(samples.newest(run.server.box.slug), gpus)
    )
    if found is None:
        return ""
    index, least = min(found.items(), key=lambda each: each[1])
    if least >= wanted:
        return ""
    return (
        f"GPU {index} has {least / GIB:.0f} of the {wanted / GIB:.0f} GiB free that it waits for."
    )


@verb
def drop_cache(run: ManagedRun, /) -> None:
    """Drop the box's page cache if the profile wants it, and nobody is on a GPU.

    Raises Refused where the box does not allow it, ContainerError when Docker does not.
    """
    if not run.version.launch.drop_cache:
        return
    if not creation.read_limits().reclaim:
        raise SecretsError(
            f"{run.server.box} does not let profiles drop its page cache, as this one wants. "
            f"{limits.granted_by(settings.MANAGE, 'reclaim')}. Or take it out of the profile."
        )
    # Pages of an engine's own files would have to be read again while it serves.
    sample = samples.newest(run.server.box.slug)
    if holders.others(sample or {}, ()):
        log.info("run %s: the page cache stays, as somebody is on a GPU", run.pk)
        return
    resources.drop_caches(creation.docker(), root=settings.HOST_ROOT)


def is_out_of_patience(run: Run) -> bool:
    since = max(run.moved_at, run.turn_at) if run.turn_at else run.moved_at
    return timezone.now() - since > PATIENCE


@dataclass(frozen=True, kw_only=True)
class QueueReason:
    """What a queued run waits for: a sentence, and the same to go on after a colon."""

    says: str
    why: str
    is_for_turn: bool  # somebody is in its way; False: it is only short of memory

    def __bool__(self) -> bool:
        return bool(self.says)

    def __str__(self) -> str:
        return self.says


def check_turn(run: Run) -> QueueReason:
    """What it waits for now, if anything; whom it waits for is noted on its row.

    Raises CardsError when the box has not the GPUs.
    """
    found = find_run_conflict(run)
    _note(run, found)
    if found.holders:
        return QueueReason(says=found.sentence(), why=found.why(), is_for_turn=True)
    short = short_of(run)
    return QueueReason(says=short, why=short.rstrip("."), is_for_turn=False)


def _note(run: Run, found: GpuConflict) -> None:
    before, now = set(run.waits_for.values_list("pk", flat=True)), set(found.runs)
    if found.holders:
        run.turn_at = None
    elif run.turn_at is None and (before or run.waits):
        run.turn_at = timezone.now()
    Run.objects.filter(pk=run.pk).exclude(turn_at=run.turn_at).update(turn_at=run.turn_at)
    if before != now:
        run.waits_for.set(now)
        _tell(Run.objects.filter(pk__in=before | now))


def leave_queue(run: Run) -> None:
    """It waits no more: it starts, or does not any longer."""
    waited_for = list(run.waits_for.all())
    if waited_for:
        run.waits_for.clear()
        _tell(waited_for)


def _tell(runs: Iterable[Run]) -> None:
    """Their cards say who waits for them."""
    for run in runs:
        events.publish_change("server", run.server_id)


def is_over(run: Run) -> bool:
    """Whether the time is over for which it was told to wait."""
    return run.waits_until is not None and timezone.now() >= run.waits_until


def given_up(run: Run, wait: QueueReason) -> dict[str, Any]:
    """What to note on a run that has waited for as long as it was told to."""
    leave_queue(run)
    now = timezone.now()
    hours, minutes = divmod(round((now - run.created_at).total_seconds() / 60), 60)
    took = " ".join(f"{n} {unit}" for n, unit in ((hours, "h"), (minutes, "min")) if n)
    AuditEntry.note(None, "give up waiting", run.server, run=run.pk, why=wait.why)
    said = f"It waited {took or 'a moment'}, as it was told to, and was given up: {wait.why}."
    return {"ended_at": now, "status_message": said}


@contextmanager
def lock_queue(run: Run) -> Iterator[bool]:
    """Whether nobody is in its way, while nobody else of its box can get there."""
    with transaction.atomic():
        Box.objects.select_for_update().get(pk=run.server.box_id)
        yield not find_run_conflict(run).holders

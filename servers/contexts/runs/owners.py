"""Users of a box's GPUs: who started, who uses, and who waits."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Prefetch

from servers.judge.memory.holders import GpuMemory
from servers.models import ActiveUser, Box, Run
from servers.models.runs.run import RunState


@dataclass(frozen=True, kw_only=True)
class Waiter:
    slug: str
    by: str
    until: datetime | None


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A server on some of the GPUs. Named like a run's, so that the same words fit both."""

    slug: str
    by: str  # "" where nobody knows any more
    since: datetime  # the click
    state: str
    gpus: frozenset[int]  # those that it holds something of, or is about to
    ready_at: datetime | None
    last_request_at: datetime | None
    requests_running: int | None
    users: tuple[tuple[str, datetime], ...]  # of the playground, lately
    waiters: tuple[Waiter, ...]


def owners(box: Box, gpus: Sequence[GpuMemory]) -> tuple[Owner, ...]:
    """Of a box whose GPUs are `gpus` now."""
    waiting = Run.objects.filter(state__in=[RunState.QUEUED, RunState.PULLING])
    runs = (
        Run.objects.active()
        .filter(server__box=box)
        .exclude(state__in=[RunState.QUEUED, RunState.PULLING])
        .select_related("server", "version", "started_by", "health")
        .prefetch_related(
            Prefetch(
                "active_users", ActiveUser.objects.lately().select_related("by"), to_attr="lately"
            ),
            Prefetch(
                "waited_for_by",
                waiting.select_related("server", "started_by").order_by("created_at"),
                to_attr="waiters",
            ),
        )
        .order_by("created_at")
    )
    return tuple(_owner(run, box, gpus) for run in runs)


def _owner(run: Run, box: Box, gpus: Sequence[GpuMemory]) -> Owner:
    given = box.indices(run.gpus or run.version.launch.gpus) or frozenset()
    lately: list[ActiveUser] = getattr(run, "lately", [])
    waiters: list[Run] = getattr(run, "waiters", [])
    return Owner(
        slug=run.server.slug,
        by=run.started_by.username if run.started_by else "",
        since=run.created_at,
        state=run.state,
        gpus=frozenset(gpu.index for gpu in gpus if gpu.index in given and _is_on(run, gpu)),
        ready_at=run.ready_at,
        last_request_at=run.health.last_request_at,
        requests_running=run.health.requests_running,
        users=tuple((use.by.username, use.at) for use in lately),
        waiters=tuple(
            Waiter(
                slug=each.server.slug,
                by=each.started_by.username if each.started_by else "",
                until=each.waits_until,
            )
            for each in waiters
        ),
    )


def _is_on(run: Run, gpu: GpuMemory) -> bool:
    """Whether a ready server uses this one of its cards; one that loads may do so yet."""
    if run.state != RunState.READY or gpu.ledger is None:
        return True
    return any(part.key == f"server-{run.server.slug}" for part in gpu.ledger.parts)

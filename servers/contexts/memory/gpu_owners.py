"""The page context of who is on a box’s GPUs: each GPU with its owners, each server with who uses and awaits it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Prefetch

from servers.judge.memory.holders import GpuMemory, GpuOwner, list_owners
from servers.models import ActiveUser, Box, ExternalEngine, OtherWorkloads, Run, Server
from servers.models.runs.run import ACTIVE, RunState


@dataclass(frozen=True, kw_only=True)
class GpuRow:
    """A GPU and its owners, the largest first."""

    gpu: GpuMemory
    owners: tuple[GpuOwner, ...]


@dataclass(frozen=True, kw_only=True)
class LoadingRun:
    slug: str
    box: int
    gpus: str  # as the run was given them: "0,1"


@dataclass(frozen=True, kw_only=True)
class KnownOwners:
    """What is known of the owners of GPU memory on all boxes."""

    servers: Mapping[str, str] = field(default_factory=dict)  # container id -> slug
    containers: Mapping[str, str] = field(default_factory=dict)  # container id -> name
    ended: Mapping[str, str] = field(default_factory=dict)  # those of ended runs -> slug
    loading: tuple[LoadingRun, ...] = ()


def read_owners() -> KnownOwners:
    """In as many queries for fifty boxes as for one."""
    servers: dict[str, str] = {}
    loading: list[LoadingRun] = []
    for container, slug, box, state, gpus in Run.objects.active().values_list(
        "container_id", "server__slug", "server__box", "state", "gpus"
    ):
        if container:
            servers[container] = slug
        if state in (RunState.CREATING, RunState.STARTING):
            loading.append(LoadingRun(slug=slug, box=box, gpus=gpus))
    containers = {
        container: str(found.get("name") or "")
        for container, found in ExternalEngine.objects.values_list("container_id", "found")
    }
    runs = Server.objects.present().exclude(run__state__in=ACTIVE).exclude(run__container_id="")
    ended = dict(runs.values_list("run__container_id", "slug"))
    for around in OtherWorkloads.objects.all():
        containers |= {each["container"]: each["name"] for each in around.containers}
    return KnownOwners(servers=servers, containers=containers, ended=ended, loading=tuple(loading))


def build_rows(box: Box, gpus: Iterable[GpuMemory], known: KnownOwners) -> tuple[GpuRow, ...]:
    found = []
    for gpu in gpus:
        held = list_owners(gpu, known.containers, known.ended)
        found.append(GpuRow(gpu=gpu, owners=(*held, *_list_loading(box, gpu, known, held))))
    return tuple(found)


def _list_loading(
    box: Box, gpu: GpuMemory, known: KnownOwners, held: Iterable[GpuOwner]
) -> Iterator[GpuOwner]:
    """Servers that have the GPU and hold nothing of it yet."""
    names = {each.name for each in held if each.kind == "server"}
    for run in known.loading:
        has_it = run.box == box.pk and gpu.index in (box.indices(run.gpus) or ())
        if has_it and run.slug not in names:
            yield GpuOwner(kind="server", name=run.slug, is_loading=True)


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


def list_server_owners(box: Box, gpus: Sequence[GpuMemory]) -> tuple[Owner, ...]:
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

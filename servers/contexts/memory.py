"""GPU memory on pages: its owners, what to care about, and its history."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Min, Prefetch, Q, QuerySet
from django.utils import timezone

from servers.judge.memory import advice, history
from servers.judge.memory.advice import Cure
from servers.judge.memory.hardware.finding import SEVERITIES, HardwareFinding, worst_first
from servers.judge.memory.hardware.judge import CheckedPart, list_checked_parts
from servers.judge.memory.history import SPANS, Point, Times
from servers.judge.memory.holders import GpuMemory, GpuOwner, list_owners
from servers.judge.memory.orphans import Orphan
from servers.judge.memory.verdicts import ALARMS
from servers.models import (
    ActiveUser,
    Box,
    ExternalEngine,
    HistoryChunk,
    Job,
    OtherWorkloads,
    Run,
    Server,
    User,
)
from servers.models.box import holds_memory
from servers.models.jobs import TOLD_FOR, JobKind
from servers.models.memory import Chunk
from servers.models.runs.run import ACTIVE, RunState
from servers.state import samples


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


@dataclass(frozen=True, kw_only=True)
class OfferedAction:
    """Something that was left behind, with the buttons that this person gets."""

    left: Orphan
    buttons: tuple[tuple[str, str], ...]  # kind of action, words
    is_asked: bool  # somebody has pressed one


@dataclass(frozen=True, kw_only=True)
class OrphanActions:
    pk: int
    slug: str
    cures: tuple[Cure, ...]
    left: tuple[OfferedAction, ...]
    actions: tuple[Job, ...]  # of the last day
    may_reclaim: bool
    is_reclaiming: bool
    is_blind: bool  # the box's processes cannot be seen from where its watcher runs

    @property
    def told_cures(self) -> tuple[Cure, ...]:
        """Without those of memory that something in the list of orphans holds."""
        return tuple(each for each in self.cures if each.verdict != "residual" or not self.left)

    @property
    def has_advice(self) -> bool:
        return bool(self.told_cures or self.left or self.is_blind)


# What somebody with an account on the box could do; the others go with starting and stopping.
ADMINS = (JobKind.KILL, JobKind.UNLINK, JobKind.RECLAIM)
# The page of what was found tells of the others.
_TOLD = [*ADMINS, JobKind.ADOPT, JobKind.REMOVE, JobKind.DELETE]
WORDS = {
    JobKind.KILL: "End it",
    JobKind.UNLINK: "Delete",
    JobKind.ADOPT: "Adopt",
    JobKind.REMOVE: "Remove",
}


def may(person: User, kind: JobKind) -> bool:
    return person.may_administer if kind in ADMINS else person.may_operate


def care_of(box: Box, person: User) -> OrphanActions:
    since = timezone.now() - TOLD_FOR
    # Pulls that were asked for on the page of images are told of there.
    is_mine = Q(kind__in=_TOLD) | Q(kind=JobKind.PULL, params__has_key="server")
    told = box.jobs.filter(is_mine, asked_at__gt=since).select_related("asked_by")
    actions = tuple(told[:5])
    open_ones = {(each.kind, each.target) for each in actions if not each.is_over}
    sample = samples.newest(box.slug)
    return OrphanActions(
        pk=box.pk,
        slug=box.slug,
        cures=advice.list_cures(sample),
        left=tuple(_offer_action(each, person, open_ones) for each in box.left_behind),
        actions=actions,
        may_reclaim=may(person, JobKind.RECLAIM),
        is_reclaiming=(JobKind.RECLAIM, "") in open_ones,
        is_blind=sample is not None and not sample.get("sees_host_pids"),
    )


def _offer_action(
    said: dict[str, Any], person: User, open_ones: set[tuple[str, str]]
) -> OfferedAction:
    left = Orphan.from_json(said)
    kinds = [JobKind(each) for each in left.actions]
    return OfferedAction(
        left=left,
        buttons=tuple((str(kind), WORDS[kind]) for kind in kinds if may(person, kind)),
        is_asked=any((str(kind), left.key) in open_ones for kind in kinds),
    )


@dataclass(frozen=True, kw_only=True)
class HardwareReport:
    is_judged: bool  # not before the watcher's first look
    findings: tuple[HardwareFinding, ...] = ()  # the worst first
    looked: tuple[CheckedPart, ...] = ()
    # What holds memory without a run, in a few words each: the cards are sound, the box is not well.
    orphans: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong, as far as is known."""
        return self.is_judged and not self.findings and not self.orphans

    @property
    def faults(self) -> tuple[HardwareFinding, ...]:
        """Without what is only worth knowing."""
        return tuple(each for each in self.findings if each.severity != "info")

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """How many of each severity there are, without what is only worth knowing."""
        found = Counter(each.severity for each in self.faults)
        return tuple((severity, found[severity]) for severity in SEVERITIES if found[severity])

    @property
    def seen(self) -> tuple[CheckedPart, ...]:
        return tuple(each for each in self.looked if each.is_seen)

    @property
    def unseen(self) -> tuple[CheckedPart, ...]:
        return tuple(each for each in self.looked if not each.is_seen)

    def worst_of(self, card: str) -> HardwareFinding | None:
        """What a mark on this card tells."""
        return next((each for each in self.faults if each.subject == card), None)


def hardware(
    sample: Mapping[str, Any] | None, left_behind: Sequence[Mapping[str, Any]] = ()
) -> HardwareReport:
    """Of a judged sample; None: there is none. `left_behind`: the box's Left, as JSON."""
    orphans = (*_list_orphan_verdicts(sample or {}), *_list_left_behind(left_behind))
    if sample is None or "findings" not in sample:
        return HardwareReport(is_judged=False, orphans=orphans)
    findings = [HardwareFinding.from_json(each) for each in sample["findings"]]
    return HardwareReport(
        is_judged=True,
        findings=tuple(worst_first(findings)),
        looked=list_checked_parts(sample),
        orphans=orphans,
    )


def _list_orphan_verdicts(sample: Mapping[str, Any]) -> Iterator[str]:
    """Of the verdicts on memory that alarm: an engine's that is gone, or nobody's."""
    indices = {card.get("uuid"): card.get("index") for card in sample.get("gpus") or ()}
    for each in sample.get("verdicts") or ():
        if each["verdict"] in ALARMS and each["gpu"] in indices:
            yield f"memory without a run on GPU {indices[each['gpu']]}"


def _list_left_behind(left_behind: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in left_behind:
        if holds_memory(each):
            yield f"{each['what']}, left behind"


type ChunkTable = type[Chunk]


def list_chunks(
    table: ChunkTable, box: Box, step: int, since: int, until: int
) -> "QuerySet[Chunk, Any]":
    """The chunks of one step that hold points of this range, in their order."""
    first = history.slot(since, SPANS[step])
    found = table._default_manager.filter(box=box, step=step, start__gte=first, start__lt=until)
    return found.order_by("start")


def find_reach(table: ChunkTable, box: Box) -> dict[int, int]:
    """From when on there are chunks of each step, by unix seconds."""
    steps = table._default_manager.filter(box=box).order_by().values("step")
    return dict(steps.annotate(oldest=Min("start")).values_list("step", "oldest"))


def find_oldest(table: ChunkTable, box: Box) -> int | None:
    """The moment of the oldest point; None where nothing was recorded."""
    return min(_list_moments(table, box, "start"), default=None)


def find_newest(table: ChunkTable, box: Box) -> int | None:
    """The moment of the newest point; None where nothing was recorded."""
    return max(_list_moments(table, box, "-start"), default=None)


def list_keys(table: ChunkTable, box: Box) -> list[str]:
    """What the newest chunk has points of."""
    return list(_read_coarse(table, box, "-start"))


def _list_moments(table: ChunkTable, box: Box, order: str) -> list[int]:
    return [t for times in _read_coarse(table, box, order).values() for t in times]


def _read_coarse(table: ChunkTable, box: Box, order: str) -> history.Series:
    """The first chunk of the widest points in this order; {} where there is none."""
    chunks = table._default_manager.filter(box=box, step=max(SPANS)).order_by(order)
    first = chunks.first()
    return history.unpack(bytes(first.body)) if first else {}


def read_points(
    table: ChunkTable, box: Box, step: int, width: int, since: int, until: int, *, key: str = ""
) -> dict[str, Times]:
    """Points of `width` seconds, by what they are of; with a `key`, of that alone."""
    groups: dict[str, dict[int, list[Point]]] = {}
    for body in list_chunks(table, box, step, since, until).values_list("body", flat=True):
        for each, times in history.unpack(bytes(body), key).items():
            for t, point in times.items():
                if since <= t < until:
                    slots = groups.setdefault(each, {})
                    slots.setdefault(history.slot(t, width), []).append(point)
    return {
        each: {t: _join(points, history.roll_up) for t, points in slots.items()}
        for each, slots in groups.items()
    }


def read_gpu_points(
    box: Box, step: int, width: int, since: int, until: int, *, gpu: str = ""
) -> Times:
    """Points of `width` seconds, of one GPU or of all of them together."""
    groups: dict[int, list[Point]] = {}
    for times in read_points(HistoryChunk, box, step, width, since, until, key=gpu).values():
        for t, point in times.items():
            groups.setdefault(t, []).append(point)
    return {t: _join(of_gpus, history.together) for t, of_gpus in groups.items()}


def _join(points: list[Point], join: Callable[[list[Point]], Point]) -> Point:
    return points[0] if len(points) == 1 else join(points)

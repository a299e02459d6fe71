"""External engines on pages: those found on each box, their clusters, and other workloads."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count, Sum
from django.utils import timezone

from servers.contexts import alerts
from servers.judge.external.engines import DiscoveredEngine, MissingPermission, Origin, together
from servers.judge.images.names import find_image_name
from servers.judge.memory.holders import memory_by_container, memory_by_pid
from servers.launch.commandline.clusters import (
    EngineRank,
    group_ranks,
    read_rank,
    uses_ray,
    works_for,
)
from servers.lifecycle.runs.starts import list_ray_runs
from servers.models import (
    Box,
    ExternalEngine,
    HostResources,
    Job,
    ModelInventory,
    OtherWorkloads,
    ProfileImport,
    Run,
    Server,
    StoredImage,
    User,
)
from servers.models.jobs import TOLD_FOR, JobKind
from servers.state import samples


@dataclass(frozen=True, kw_only=True)
class ExternalEngineCard:
    """One that somebody else has started, and what can be done about it here."""

    found: DiscoveredEngine
    image: str  # as people call it
    held: int | None  # bytes on all GPUs; None: none, or the driver does not tell
    server: str  # the slug of the server that watches it; "" for none
    requests: int | None  # that run, of one that is watched, or while somebody looks
    profile: str  # the slug of the profile that was made of it; "" for none
    asked: str  # the kind of what somebody wants done to it right now; "" for nothing

    @property
    def may_be_watched(self) -> bool:
        return not (self.found.has_ended or self.server)

    @property
    def may_be_taken_over(self) -> bool:
        return not (self.found.has_ended or self.found.origin.install)


@dataclass(frozen=True, kw_only=True)
class Others:
    pk: int
    slug: str
    rows: tuple[ExternalEngineCard, ...]
    refused: tuple[Job, ...]  # of the last day: what could not be monitored, and why
    may_watch: bool


def others_of(box: Box, person: User) -> Others:
    since = timezone.now() - TOLD_FOR
    told = list(box.jobs.filter(kind=JobKind.WATCH, asked_at__gt=since).select_related("asked_by"))
    sample, names = samples.newest(box.slug) or {}, StoredImage.objects.names(box)
    rows = (each for each in list_cards(box, sample, told, names) if not each.found.has_ended)
    return Others(
        pk=box.pk,
        slug=box.slug,
        rows=tuple(rows),
        refused=tuple(each for each in told if each.state == Job.State.REFUSED)[:3],
        may_watch=person.may_edit,
    )


def list_cards(
    box: Box, sample: Mapping[str, Any], told: Iterable[Job], names: Mapping[str, str]
) -> Iterator[ExternalEngineCard]:
    """All of a box, those that run first; `told` is what people want done to them."""
    asked = {each.target: each.kind for each in told if not each.is_over}
    active = Run.objects.active().filter_external().filter(server__box=box)
    watched = {
        container: (slug, requests)
        for container, slug, requests in active.values_list(
            "container_id", "server__slug", "health__requests_running"
        )
    }
    made = dict(
        ProfileImport.objects.filter(box=box, version__profile__archived_at=None).values_list(
            "container", "version__profile__slug"
        )
    )
    held = memory_by_container(sample)
    for engine in box.external_engines.order_by("has_ended", "seen_at", "pk"):
        found = DiscoveredEngine.from_json(engine.found)
        server, requests = watched.get(found.container, ("", None))
        yield ExternalEngineCard(
            found=found,
            image=find_image_name(found.image, names),
            held=held_by(found.pids, sample) if found.is_process else held.get(found.container),
            server=server,
            requests=requests if server else found.running,
            profile=made.get(found.container, ""),
            asked=asked.get(found.key, ""),
        )


def count_unmonitored() -> dict[int, int]:
    """By box, how many of them nobody watches."""
    watched = Run.objects.active().filter_external().values("container_id")
    alone = (
        ExternalEngine.objects.filter(has_ended=False).exclude(container_id__in=watched).order_by()
    )
    return dict(alone.values_list("box").annotate(count=Count("pk")))


def held_by(pids: Collection[int], sample: Mapping[str, Any]) -> int | None:
    """Bytes that these processes have on all GPUs."""
    mine = [
        each.get("used")
        for card in sample.get("gpus") or []
        for each in card.get("processes") or []
        if each["pid"] in pids
    ]
    return sum(size for size in mine if size is not None) if mine and None not in mine else None


@dataclass(frozen=True, kw_only=True)
class Member:
    rank: EngineRank
    server: Server
    run: Run


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What one of its servers has to know. `head` is None where nobody watches it."""

    rank: EngineRank
    head: Member | None
    followers: tuple[Member, ...]

    @property
    def is_on_heads_card(self) -> bool:
        return self.rank.follows and self.head is not None

    @property
    def missing(self) -> int:
        """Ranks that nobody watches, as far as the flags say how many there are."""
        known = len(self.followers) + (self.head is not None)
        return max(0, (self.rank.of or known) - known)


def cluster_of(server: Server) -> Cluster | None:
    """None of a server that runs on one box alone, as nearly all do."""
    run = server.run
    if run is None or not run.is_active or not run.is_watched:
        return None
    own = read_rank(run.launch)
    if own is None:
        return None
    members = {
        each.pk: Member(rank=rank, server=each.server, run=each)
        for each in _list_watched_runs()
        if (rank := read_rank(each.launch)) is not None and rank.cluster == own.cluster
    }
    for head, follow in group_ranks({pk: each.rank for pk, each in members.items()}).items():
        return Cluster(rank=own, head=members[head], followers=tuple(members[pk] for pk in follow))
    return Cluster(rank=own, head=None, followers=())


def with_others(servers: Iterable[int]) -> set[int]:
    """These, and those that are in one cluster with them: their cards tell of each other."""
    wanted = set(servers)
    ranks = {
        each.server_id: rank for each in _list_watched_runs() if (rank := read_rank(each.launch))
    }
    names = {rank.cluster for pk, rank in ranks.items() if pk in wanted}
    return wanted | {pk for pk, rank in ranks.items() if rank.cluster in names}


def _list_watched_runs() -> Iterable[Run]:
    active = Run.objects.active().filter_external().filter(server__removed_at=None)
    return active.select_related("server__box", "version", "plan__repeats").order_by("pk")


@dataclass(frozen=True, kw_only=True)
class RayWorker:
    """A container or process that somebody has started to work for an engine elsewhere."""

    name: str
    box: Box
    address: str  # of the head that it has joined
    began: datetime | None


def ray_workers(server: Server) -> tuple[RayWorker, ...]:
    """Those of a server whose engine spreads over boxes with Ray; () of any other."""
    run = server.run
    if run is None or not run.is_active or not uses_ray(run.launch, run.start.command):
        return ()
    return tuple(worker for worker in _workers() if _works_for(worker.address, run))


def of_ray(head: str) -> list[Server]:
    """Whose engines are spread by the cluster of Ray's with this head."""
    return [run.server for run in list_ray_runs() if _works_for(head, run)]


def _works_for(head: str, run: Run) -> bool:
    host_resources = HostResources.objects.find(run.server.box_id)
    own = host_resources.found.get("addresses", ()) if host_resources else ()
    return works_for(head, run.launch, run.start.command, own)


def _workers() -> Iterable[RayWorker]:
    for around in OtherWorkloads.objects.select_related("box").order_by("box__slug"):
        for each in around.containers:
            if "ray" in each:
                at = each["started_at"]
                began = None if at is None else datetime.fromtimestamp(at, UTC)
                yield RayWorker(name=each["name"], box=around.box, address=each["ray"], began=began)


KINDS = (JobKind.WATCH, JobKind.PROFILE, JobKind.TAKE_OVER)
# After one of these something on the box is no longer as it was found.
_CHANGES = (
    JobKind.KILL,
    JobKind.UNLINK,
    JobKind.REMOVE,
    JobKind.RECLAIM,
    JobKind.PULL,
    JobKind.TAKE_OVER,
)
MOST_TOLD = 6
NO_TOOLKIT = (
    "NVIDIA's container toolkit is not installed",
    "Without it Docker gives no GPU to an engine. Install nvidia-container-toolkit, then: "
    "`sudo nvidia-ctk runtime configure --runtime=docker` and `sudo systemctl restart docker`.",
)


@dataclass(frozen=True, kw_only=True)
class GpuOccupant:
    """Who is on a GPU, or was given one, and is no engine."""

    name: str
    what: str  # its image, or its user and process
    held: int | None
    origin: Origin | None  # None of a process, of which nobody has asked for more
    began: datetime | None
    user: str = ""  # of a process
    ray: str = ""  # the head of Ray's that it has joined
    servers: tuple[Server, ...] = ()  # whose engines it works for


@dataclass(frozen=True, kw_only=True)
class ModelsSummary:
    """Models on the disks."""

    count: int
    size: int  # bytes
    incomplete: int
    folders: tuple[tuple[str, int], ...]  # path, how many
    looked_at: datetime | None
    is_looking: bool


@dataclass(frozen=True, kw_only=True)
class ExternalFindings:
    pk: int
    slug: str
    is_silent: bool
    seen_at: datetime | None
    is_known: bool  # its watcher has looked around
    trouble: str  # why Docker could not be asked; "" when it could
    is_untouched: bool  # inferdash has changed nothing on it so far
    engines: tuple[ExternalEngineCard, ...]
    others: tuple[GpuOccupant, ...]
    quiet: tuple[str, ...]  # names of containers that are on no GPU
    models: ModelsSummary
    images: Mapping[str, int]
    unseen: tuple[MissingPermission, ...]
    command: str  # that grants all of it; "" where each has its own
    told: tuple[Job, ...]
    missing: tuple[tuple[str, str], ...]  # what engines need and the box lacks, and its cure
    may_edit: bool

    @property
    def running(self) -> int:
        return sum(not each.found.has_ended for each in self.engines)

    @property
    def ended(self) -> int:
        return len(self.engines) - self.running

    @property
    def is_empty(self) -> bool:
        """Nobody has started anything that a person could take up."""
        return not (self.engines or self.others)

    @property
    def is_fresh(self) -> bool:
        """Whether it was looked at, and nothing is there to go on from."""
        return self.is_empty and self.is_known


def found_on(box: Box, person: User) -> ExternalFindings:
    samples.note_look(box.slug)
    around = OtherWorkloads.objects.find(box)
    sample = samples.newest(box.slug) or {}
    since = timezone.now() - TOLD_FOR
    told = list(box.jobs.filter(kind__in=KINDS, asked_at__gt=since).select_related("asked_by")[:50])
    names = StoredImage.objects.names(box)
    engines = tuple(list_cards(box, sample, told, names))
    missing = _list_missing(box)
    blind = _unseen(box, around, [cure for _what, cure in missing])
    return ExternalFindings(
        pk=box.pk,
        slug=box.slug,
        is_silent=box.is_silent,
        seen_at=box.seen_at,
        is_known=around is not None,
        trouble=around.trouble if around else "",
        is_untouched=_is_untouched(box),
        engines=engines,
        others=tuple(_others(around, sample, engines, names)),
        quiet=_quiet(around, sample),
        models=_summarize_models(box),
        images=around.images if around else {},
        unseen=blind,
        command=together(blind),
        told=tuple(told[:MOST_TOLD]),
        missing=missing,
        may_edit=person.may_edit,
    )


def _list_missing(box: Box) -> tuple[tuple[str, str], ...]:
    found = alerts.problems(box)
    host_resources = HostResources.objects.find(box)
    known = host_resources.found if host_resources else {}
    lacks = known.get("toolkit") is False and "nvidia" not in known.get("runtimes", ())
    return (*found, NO_TOOLKIT) if lacks and box.gpus else found


def _is_untouched(box: Box) -> bool:
    has_acted = box.jobs.filter(kind__in=_CHANGES, state=Job.State.DONE).exists()
    return not has_acted and not Run.objects.filter_managed().filter(server__box=box).exists()


def _others(
    around: OtherWorkloads | None,
    sample: Mapping[str, Any],
    engines: tuple[ExternalEngineCard, ...],
    names: Mapping[str, str],
) -> Iterator[GpuOccupant]:
    held = memory_by_container(sample)
    workers: set[int] = set()
    for each in around.containers if around else ():
        ray, pids = each.get("ray", ""), each.get("pids", ())
        workers |= set(pids)
        if each["wants_gpus"] or each["container"] in held or ray:
            yield GpuOccupant(
                name=each["name"],
                what=each["image"] if pids else find_image_name(each["image"], names),
                held=held_by(pids, sample) if pids else held.get(each["container"]),
                ray=ray,
                servers=tuple(of_ray(ray)) if ray else (),
                origin=Origin.from_json(each["origin"]),
                began=_moment(each["started_at"]),
            )
    known = {pid for engine in engines for pid in engine.found.pids} | workers
    yield from _processes(sample, known)


def _processes(sample: Mapping[str, Any], known: set[int]) -> Iterator[GpuOccupant]:
    """Those on a GPU, in no container, that belong to no engine that was found."""
    held = memory_by_pid(sample)
    for process in sample.get("processes") or []:
        pid = process["pid"]
        if pid in held and pid not in known and not process.get("container"):
            yield GpuOccupant(
                name=f"{process.get('name') or 'process'} ({pid})",
                what=process.get("title") or "",
                held=held[pid],
                origin=None,
                user=process.get("user") or "",
                began=_moment(process.get("started_at")),
            )


def _quiet(around: OtherWorkloads | None, sample: Mapping[str, Any]) -> tuple[str, ...]:
    held = memory_by_container(sample)
    return tuple(
        each["name"]
        for each in (around.containers if around else ())
        if not each["wants_gpus"] and each["container"] not in held and "ray" not in each
    )


def _summarize_models(box: Box) -> ModelsSummary:
    inventory = ModelInventory.objects.find(box)
    stored = box.checkpoints.all()
    roots = inventory.roots if inventory else []
    return ModelsSummary(
        count=stored.count(),
        size=stored.aggregate(size=Sum("size"))["size"] or 0,
        incomplete=stored.filter(state="partial").count(),
        folders=tuple((each["path"], each["found"]) for each in roots if each["found"]),
        looked_at=inventory.looked_at if inventory else None,
        is_looking=inventory is not None and bool(inventory.looking_since),
    )


def _unseen(
    box: Box, around: OtherWorkloads | None, told: Collection[str]
) -> tuple[MissingPermission, ...]:
    reported = [MissingPermission(**each) for each in (around.unseen if around else ())]
    known = [each for each in reported if each.command or each.why not in told]
    inventory = ModelInventory.objects.find(box)
    hidden = [path for root in (inventory.roots if inventory else ()) for path in root["hidden"]]
    folders = [
        MissingPermission(
            what=f"Models in {path}",
            why="The folder may not be read by inferdash. Its owner, or root, can allow it.",
            command=f"sudo chmod o+rx {shlex.quote(path)}",
        )
        for path in hidden
    ]
    return (*known, *folders)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)

"""The page context of a box's other workloads: external engines, clusters, other programs."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count
from django.utils import timezone

from servers.judge.external.engines import DiscoveredEngine
from servers.judge.images.names import find_image_name
from servers.judge.memory.holders import memory_by_container
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

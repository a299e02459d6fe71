"""Engines on several boxes that are one cluster, which somebody has started: one card of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from servers.judge.external import clusters
from servers.judge.external.clusters import EngineRank
from servers.launch.commandline import ray
from servers.lifecycle.external.clusters import list_ray_runs
from servers.models import Box, HostResources, OtherWorkloads, Run, Server


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
    own = clusters.rank(run.launch)
    if own is None:
        return None
    members = {
        each.pk: Member(rank=rank, server=each.server, run=each)
        for each in _list_watched_runs()
        if (rank := clusters.rank(each.launch)) is not None and rank.cluster == own.cluster
    }
    for head, follow in clusters.together({pk: each.rank for pk, each in members.items()}).items():
        return Cluster(rank=own, head=members[head], followers=tuple(members[pk] for pk in follow))
    return Cluster(rank=own, head=None, followers=())


def with_others(servers: Iterable[int]) -> set[int]:
    """These, and those that are in one cluster with them: their cards tell of each other."""
    wanted = set(servers)
    ranks = {
        each.server_id: rank
        for each in _list_watched_runs()
        if (rank := clusters.rank(each.launch))
    }
    names = {rank.cluster for pk, rank in ranks.items() if pk in wanted}
    return wanted | {pk for pk, rank in ranks.items() if rank.cluster in names}


def _list_watched_runs() -> Iterable[Run]:
    active = Run.objects.active().filter(is_watched=True, server__removed_at=None)
    return active.select_related("server__box", "version", "like").order_by("pk")


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
    if run is None or not run.is_active or not ray.uses_ray(run.launch, run.command):
        return ()
    return tuple(worker for worker in _workers() if _works_for(worker.address, run))


def of_ray(head: str) -> list[Server]:
    """Whose engines are spread by the cluster of Ray's with this head."""
    return [run.server for run in list_ray_runs() if _works_for(head, run)]


def _works_for(head: str, run: Run) -> bool:
    host_resources = HostResources.objects.filter(box=run.server.box_id).first()
    own = host_resources.found.get("addresses", ()) if host_resources else ()
    return ray.works_for(head, run.launch, run.command, own)


def _workers() -> Iterable[RayWorker]:
    for around in OtherWorkloads.objects.select_related("box").order_by("box__slug"):
        for each in around.containers:
            if "ray" in each:
                at = each["started_at"]
                began = None if at is None else datetime.fromtimestamp(at, UTC)
                yield RayWorker(name=each["name"], box=around.box, address=each["ray"], began=began)

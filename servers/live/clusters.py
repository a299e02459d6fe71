"""Engines on several boxes that are one cluster, which somebody has started: one card of them."""

from collections.abc import Iterable
from dataclasses import dataclass

from servers.judge import clusters
from servers.judge.clusters import Rank
from servers.models import Run, Server


@dataclass(frozen=True, kw_only=True)
class Member:
    rank: Rank
    server: Server
    run: Run


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What one of its servers has to know. `head` is None where nobody watches it."""

    rank: Rank
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
        for each in _watched()
        if (rank := clusters.rank(each.launch)) is not None and rank.cluster == own.cluster
    }
    for head, follow in clusters.together({pk: each.rank for pk, each in members.items()}).items():
        return Cluster(rank=own, head=members[head], followers=tuple(members[pk] for pk in follow))
    return Cluster(rank=own, head=None, followers=())


def with_others(servers: Iterable[int]) -> set[int]:
    """These, and those that are in one cluster with them: their cards tell of each other."""
    wanted = set(servers)
    ranks = {each.server_id: rank for each in _watched() if (rank := clusters.rank(each.launch))}
    names = {rank.cluster for pk, rank in ranks.items() if pk in wanted}
    return wanted | {pk for pk, rank in ranks.items() if rank.cluster in names}


def _watched() -> Iterable[Run]:
    active = Run.objects.active().filter(is_watched=True, server__removed_at=None)
    return active.select_related("server__box", "version", "like").order_by("pk")

"""Servers beside a conversation: their state, GPUs and load."""

from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string

from servers.judge.memory import holders
from servers.models import Server, User
from servers.state import box_samples


@dataclass(frozen=True, kw_only=True)
class ServerGpu:
    """A GPU on which the server has a process. None: the card does not report it."""

    index: int
    used: int | None  # bytes, by whomever
    total: int | None
    util: int | None  # percent


@dataclass(frozen=True, kw_only=True)
class ServerStatus:
    server: Server
    cards: tuple[ServerGpu, ...] = ()  # empty: it has none, or nobody can tell
    held: int | None = None  # bytes of GPU memory that it holds on all of them

    @property
    def used(self) -> int | None:
        sizes = [card.used for card in self.cards if card.used is not None]
        return sum(sizes) if sizes else None

    @property
    def total(self) -> int | None:
        sizes = [card.total for card in self.cards if card.total is not None]
        return sum(sizes) if sizes else None

    @property
    def util(self) -> int | None:
        """Of the busiest."""
        return max((card.util for card in self.cards if card.util is not None), default=None)

    @property
    def names(self) -> str:
        """ "GPU 0", "GPUs 0, 1"."""
        indices = ", ".join(str(card.index) for card in self.cards)
        return f"GPU{'s' if len(self.cards) > 1 else ''} {indices}"


def standings() -> list[ServerStatus]:
    servers = [each for each in Server.objects.for_dashboard() if each.launch.serves_models]
    samples = {slug: box_samples.newest(slug) or {} for slug in {each.box.slug for each in servers}}
    return [_build_status(each, samples[each.box.slug]) for each in servers]


def _build_status(server: Server, sample: dict[str, Any]) -> ServerStatus:
    container = server.run.container_id if server.run and server.run.is_active else ""
    if not container:
        return ServerStatus(server=server)
    on = holders.cards_by_container(sample).get(container, frozenset())
    return ServerStatus(
        server=server,
        cards=tuple(
            ServerGpu(
                index=card["index"], used=card.get("used"), total=card.get("total"),
                util=card.get("util"),
            )
            for card in sample.get("gpus") or []
            if card["index"] in on
        ),
        held=holders.memory_by_container(sample).get(container),
    )  # fmt: skip


def html(person: User) -> str:
    return render_to_string(
        "gateway/chat/_live_standing.html", {"standings": standings(), "person": person}
    )

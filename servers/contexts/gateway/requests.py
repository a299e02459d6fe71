"""The page context of the gateway: requests, names that may be asked for, captures."""

import hashlib
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Max
from django.template.loader import render_to_string

from servers.judge.memory import holders
from servers.lifecycle.runs import starts
from servers.models import Capture, CapturedCall, Request, Server, User
from servers.models.gateway.request import LATEST
from servers.state import box_samples

type Key = tuple[str, int | None]

RECENT = 3  # on the gateway's own page


def names_mark() -> str:
    """Another text whenever the gateway would pass on, start or refuse something else."""
    seen = hashlib.sha256()
    servers = Server.objects.present().select_related(
        "box", "profile__current", "run__version", "run__plan", "run__start", "run__health"
    )
    for server in servers.order_by("pk"):
        run = server.run
        told: list[object] = [
            server.pk,
            server.profile.current_id,
            server.held_back_by_id,
            server.run_id,
        ]
        if run is not None:
            start = starts.measure_progress(run, run.launch, unified=server.box.is_unified)
            told += [run.state, run.wanted, run.sleep, run.on_request, run.served_name]
            told += [start.words, start.percent] if start is not None else []
        seen.update(repr(told).encode())
    return seen.hexdigest()[:16]


def parts(keys: set[Key], person: User, page: str) -> list[str]:
    if page not in ("gateway", "requests") or not person.may_chat:
        return []
    everything = ("everything", None) in keys
    found: list[str] = []
    if everything or ("requests", None) in keys:
        count = RECENT if page == "gateway" else LATEST
        latest = {"requests": Request.objects.visible_to(person)[:count], "person": person}
        found.append(render_to_string("gateway/_live.html", latest))
    is_about_names = everything or any(kind in ("server", "servers") for kind, _pk in keys)
    if page == "gateway" and is_about_names:
        found.append(render_to_string("gateway/_live_names_mark.html", {"mark": names_mark()}))
    return found


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


def describe_standings() -> list[ServerStatus]:
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


def render_sidebar(person: User) -> str:
    return render_to_string(
        "gateway/chat/_live_standing.html", {"standings": describe_standings(), "person": person}
    )


def captures() -> list[Capture]:
    return list(Capture.objects.active())


def render_capture(person: User, page: str) -> str:
    said = {"captures": captures(), "user": person, "in_playground": page == "chat"}
    return render_to_string("_live_capture.html", said)


def mark_capture() -> str:
    """Another text whenever capture's own page would read otherwise."""
    kept = CapturedCall.objects.recent().aggregate(count=Count("pk"), last=Max("pk"))
    on = Capture.objects.active().values_list("pk", "exchanges", "size")
    return f"{kept['count']} {kept['last']} {' '.join(str(each) for row in on for each in row)}"


def render_capture_parts(keys: set[Key], person: User, page: str) -> list[str]:
    """The mark of its own page, which admins alone see."""
    if page != "capture" or not person.may_administer:
        return []
    is_looked_at = bool(
        keys & {(kind, None) for kind in ("capture", "requests", "boxes", "everything")}
    )
    return (
        [render_to_string("gateway/_live_capture_mark.html", {"mark": mark_capture()})]
        if is_looked_at
        else []
    )

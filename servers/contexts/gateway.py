"""The page context of the gateway: models, requests, names that may be asked for, captures."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, Max
from django.template.loader import render_to_string

from servers.gateway.routes import NoRoute, Route
from servers.judge.memory import holders
from servers.judge.profiles import features
from servers.judge.profiles.facts import LaunchFacts
from servers.judge.weights.fit.demand import read_context
from servers.lifecycle.links import ways
from servers.lifecycle.profiles.knowledge import LaunchContext, share_knowledge
from servers.lifecycle.runs import starts
from servers.models import (
    Benchmark,
    Capture,
    CapturedCall,
    Request,
    Server,
    UpgradeTrial,
    User,
)
from servers.models.gateway.request import LATEST
from servers.state.samples import newest

_STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    server: str
    names: tuple[str, ...]  # by which programs may ask for it
    is_ready: bool  # here
    state: str
    says: str  # beside the state; "" where that says it all
    context: int | None  # tokens; None: not known
    capabilities: tuple[str, ...]
    box: str  # "" where there is one alone, or where it is not for this person to know


def list_models(ready: Iterable[Route], absent: Iterable[NoRoute], person: User) -> list[ModelRow]:
    """Those that are ready first."""
    found: list[Route | NoRoute] = [*ready, *absent]
    servers = Server.objects.present().select_related(
        "box", "profile__current", "run__version", "run__plan"
    )
    known = {each.slug: each for each in servers}
    contexts = {slug: LaunchContext(server.launch, server.box) for slug, server in known.items()}
    share_knowledge(list(contexts.values()))
    several = person.may_view and len({each.box_id for each in servers}) > 1
    rows = [
        _build_row(each, contexts[each.server], known[each.server], person)
        for each in found
        if each.server in known
    ]
    return rows if several else [replace(each, box="") for each in rows]


def _build_row(
    each: Route | NoRoute, context: LaunchContext, server: Server, person: User
) -> ModelRow:
    state, says = "ready", ""
    if isinstance(each, NoRoute):
        run = server.run
        state = run.shown_state if run is not None else _STOPPED
        says = _explain(each, server, person)
    subject = context.subject_alone
    facts = LaunchFacts(subject)
    capabilities = {
        "tools": features.calls_tools(subject, features.lacks(subject)),
        "reasoning": facts.flag("--reasoning-parser") is not None,
        "images": features.takes_pictures(subject),
    }
    return ModelRow(
        server=each.server,
        is_ready=isinstance(each, Route),
        names=each.names if person.may_view else each.listed,
        state=state,
        says=says,
        context=read_context(facts),
        capabilities=tuple(name for name, has_it in capabilities.items() if has_it),
        box=server.box.slug,
    )


def _explain(each: NoRoute, server: Server, person: User) -> str:
    if ways.explain_unreachable(server.box):
        return "its box is away" if ways.has_way(server.box) else "not reachable from here"
    if each.is_coming:
        return _tell_progress(each, server) if person.may_view else ""
    return "a request starts it" if each.may_start else ""


def _tell_progress(each: NoRoute, server: Server) -> str:
    """Beside name and state: of "glm-5 is starting (loading weights 30 %)." what is in brackets."""
    found = re.fullmatch(rf"{re.escape(server.slug)} is \w+ \((.+)\)\.", each.says)
    return found[1] if found else each.says


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


def render_parts(keys: set[Key], person: User, page: str) -> list[str]:
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
    samples = {slug: newest(slug) or {} for slug in {each.box.slug for each in servers}}
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
    return render_to_string("gateway/chat/_live_standing.html", describe_sidebar(person))


def describe_sidebar(person: User) -> dict[str, Any]:
    """Whoever may chat is told of check-ups, by which answers become slower."""
    return {
        "standings": describe_standings() if person.may_view else [],
        "checkups": Benchmark.objects.filter_open().with_details(),
        "begun_trials": UpgradeTrial.objects.filter_begun().select_related("by"),
        "person": person,
    }


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
    kinds = {(kind, None) for kind in ("capture", "requests", "boxes", "everything")}
    if page != "capture" or not person.may_administer or not keys & kinds:
        return []
    return [render_to_string("gateway/_live_capture_mark.html", {"mark": mark_capture()})]

"""Boxes of this inferdash as admins see them: how each is linked, who asks to join, and secrets that one has seen."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.conf import settings
from django.db.models import Count, F, OuterRef, QuerySet, Subquery
from django.template.loader import render_to_string
from django.utils import timezone

from servers.lifecycle.links import decisions
from servers.models import Box, BoxLink, BoxUpgrade, HostResources, Secret, Server, User
from servers.models.links import UpgradeStep

type Key = tuple[str, int | None]

# Seconds. Beyond it, lines of two boxes stand in the wrong order.
CLOCK_WARNED = 2.0
PAGES = frozenset({"boxes", "box_add"})


@dataclass(frozen=True, kw_only=True)
class LinkedBox:
    """`state`: here, joined, held, away or revoked; "waiting" where it has not been heard of yet."""

    name: str
    state: str
    since: datetime | None  # away or revoked
    pk: int | None  # of its link
    is_editable: bool
    gpus: str  # "8 × RTX PRO 6000"; "" where nobody knows
    version: str
    needs: str  # the version that it lacks; ""
    clock_offset: float | None  # seconds ahead of the hub
    address: str
    hostname: str
    health: str
    health_word: str
    twins: tuple[str, ...] = ()  # hosts of two machines that run as this box
    secrets: tuple[str, ...] = ()  # of a revoked one: those that it has seen and that are the same
    upgrade: BoxUpgrade | None = None  # the last one

    @property
    def is_brought_up(self) -> bool:
        """Right now."""
        return self.upgrade is not None and bool(self.upgrade.is_open)

    @property
    def may_cancel(self) -> bool:
        return (
            self.upgrade is not None
            and self.is_brought_up
            and self.upgrade.step != UpgradeStep.SWITCHING
        )

    @property
    def may_be_brought_up(self) -> bool:
        return bool(self.needs and self.pk) and self.state == "joined" and not self.is_brought_up

    @property
    def upgrade_failure(self) -> str:
        """Of the last try, while the box still lacks that version."""
        up = self.upgrade
        is_failed = up is not None and up.step == UpgradeStep.FAILED and up.version == self.needs
        return up.said if up is not None and is_failed else ""

    @property
    def has_wrong_clock(self) -> bool:
        return self.clock_offset is not None and abs(self.clock_offset) > CLOCK_WARNED

    @property
    def state_word(self) -> str:
        return {"here": "here", "waiting": "not heard of yet"}.get(self.state, self.state)

    @property
    def clock_word(self) -> str:
        if self.clock_offset is None:
            return ""
        size = abs(self.clock_offset)
        if size < 0.05:
            return "agrees"
        shown = f"{size:.1f} s" if size < 60 else f"{size / 60:.0f} min"
        return f"{shown} {'fast' if self.clock_offset > 0 else 'slow'}"


@dataclass(frozen=True, kw_only=True)
class BoxRequest:
    """A box that asks to join."""

    link: BoxLink
    is_name_taken: bool
    follows: datetime | None  # when a box of its name was revoked, whose servers it takes up


def list_linked() -> list[LinkedBox]:
    """In as many queries for eight boxes as for one."""
    secrets = _list_seen_secrets()
    links = {each.box_id: each for each in BoxLink.objects.exclude(joined_at=None) if each.box_id}
    told = HostResources.objects.by_box()
    upgrades = {each.box_id: each for each in _list_last_upgrades()}
    return [
        replace(
            _describe(box, links.get(box.pk), told.get(box.pk), secrets.get(box.pk, ())),
            upgrade=upgrades.get(box.pk),
        )
        for box in Box.objects.order_by("slug")
    ]


def _list_last_upgrades() -> QuerySet[BoxUpgrade]:
    last = BoxUpgrade.objects.filter(box=OuterRef("box")).order_by("-pk").values("pk")[:1]
    return BoxUpgrade.objects.filter(pk=Subquery(last)).select_related("box")


def find_linked() -> dict[str, LinkedBox]:
    """By name."""
    return {each.name: each for each in list_linked()}


def name_state(link: BoxLink) -> str:
    """asks, refused, over (its token was), joined, held (two came with its key), revoked."""
    if link.revoked_at is not None:
        return "revoked"
    if link.held_at is not None:
        return "held"
    if link.joined_at is not None:
        return "joined"
    if link.refused_at is not None:
        return "refused"
    invitation = link.invitation
    return "asks" if invitation and invitation.expires_at > timezone.now() else "over"


def _describe(
    box: Box, link: BoxLink | None, told: HostResources | None, secrets: tuple[str, ...]
) -> LinkedBox:
    is_here = link is None and box.slug == settings.BOX
    is_revoked = link is not None and link.revoked_at is not None
    # A further box tells it beside its link, also where its watcher waits for another version.
    version = (link.version if link else "") or box.facts.get("version", "")
    # As its watcher has compared it last; before that, as it was when it joined.
    clock = told.found.get("clock") if told is not None else None
    if is_revoked and link is not None:
        state, since = "revoked", link.revoked_at
    elif link is not None and link.held_at is not None:
        state, since = "held", link.held_at
    elif box.is_silent and not (link is not None and link.is_told):
        state, since = ("away", box.seen_at) if box.seen_at else ("waiting", None)
    else:
        state, since = "here" if is_here else "joined", None
    return LinkedBox(
        name=box.slug,
        state=state,
        since=since,
        pk=link.pk if link is not None else None,
        is_editable=not is_revoked,
        gpus=name_gpus(box),
        version=version,
        needs=settings.VERSION if version and version != settings.VERSION else "",
        clock_offset=clock["seconds"] if clock else link.clock_offset if link else None,
        address=link.came_from if link else "",
        hostname=link.hostname if link else "",
        health=box.health,
        health_word=box.health_word,
        twins=tuple(box.facts.get("twins") or ()),
        secrets=secrets if is_revoked else (),
    )


def name_gpus(box: Box) -> str:
    counted = Counter(str(each.get("name", "")) for each in box.gpus or ())
    return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in counted.items())


def _list_seen_secrets() -> Mapping[int, tuple[str, ...]]:
    """By box; without those that were changed since."""
    seen: dict[int, tuple[str, ...]] = {}
    copies = Secret.objects.filter(copies__made_at__gte=F("created_at")).order_by("name")
    for box, name in copies.values_list("copies__box", "name").distinct():
        seen[box] = (*seen.get(box, ()), name)
    return seen


def list_requests() -> list[BoxRequest]:
    found = []
    for link in BoxLink.objects.select_waiting().order_by("asked_at"):
        was = BoxLink.objects.filter(box__slug=link.name).exclude(revoked_at=None).first()
        is_taken = decisions.is_name_taken(link.name)
        follows = was.revoked_at if was is not None and not is_taken else None
        found.append(BoxRequest(link=link, is_name_taken=is_taken, follows=follows))
    return found


def build_upgrade(link: BoxLink) -> dict[str, object]:
    """What the question before it says."""
    running = Server.objects.present().filter(box=link.box, run__ended_at=None).exclude(run=None)
    return {"link": link, "version": settings.VERSION, "running": running.count()}


def build_revocation(link: BoxLink) -> dict[str, object]:
    """What the question before it says."""
    running = Server.objects.present().filter(box=link.box, run__ended_at=None).exclude(run=None)
    return {
        "link": link,
        "secrets": decisions.list_seen_secrets(link),
        "running": list(running.order_by("slug").values_list("slug", flat=True)),
    }


def build_removal(link: BoxLink) -> dict[str, object]:
    """What goes with it."""
    counted = Server.objects.filter(box=link.box).aggregate(
        servers=Count("pk", distinct=True), runs=Count("runs", distinct=True)
    )
    return {"link": link, **counted}


def render_parts(keys: set[Key], person: User, page: str) -> list[str]:
    """Of Settings, Boxes; with every look at boxes too, as one goes away by the clock."""
    wanted = {("links", None), ("boxes", None), ("everything", None)}
    if page not in PAGES or not person.may_administer or not keys & wanted:
        return []
    parts: list[str] = [
        render_to_string("links/_live_requests.html", {"requests": list_requests()})
    ]
    if page == "boxes":
        parts.append(render_to_string("links/_live_list.html", {"boxes": list_linked()}))
    return parts

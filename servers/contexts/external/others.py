"""The page context of external engines on a box."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count
from django.template.loader import render_to_string
from django.utils import timezone

from servers.judge.external.engines import DiscoveredEngine
from servers.judge.images.names import find_image_name
from servers.judge.memory.holders import memory_by_container
from servers.models import Action, Box, ExternalEngine, Run, StoredImage, User
from servers.models.jobs.action import TOLD_FOR, ActionKind
from servers.state import box_samples


@dataclass(frozen=True, kw_only=True)
class ExternalEngineRow:
    found: DiscoveredEngine
    image: str  # as people call it
    held: int | None  # bytes on all GPUs; None: none, or the driver does not tell
    server: str  # the slug of the server that watches it; "" for none
    is_asked: bool  # somebody has pressed Watch


@dataclass(frozen=True, kw_only=True)
class Others:
    pk: int
    slug: str
    rows: tuple[ExternalEngineRow, ...]
    refused: tuple[Action, ...]  # of the last day: what could not be watched, and why
    may_watch: bool


def others_of(box: Box, person: User) -> Others:
    since = timezone.now() - TOLD_FOR
    told = list(
        box.actions.filter(kind=ActionKind.WATCH, asked_at__gt=since).select_related("asked_by")
    )
    asked = {each.target for each in told if not each.is_over}
    active = Run.objects.active().filter(server__box=box, is_watched=True)
    watched = dict(active.values_list("container_id", "server__slug"))
    sample = box_samples.newest(box.slug) or {}
    held = memory_by_container(sample)
    names = StoredImage.objects.names(box)
    rows = [
        ExternalEngineRow(
            found=found,
            image=find_image_name(found.image, names),
            held=held_by(found.pids, sample) if found.is_process else held.get(found.container),
            server=watched.get(found.container, ""),
            is_asked=found.key in asked,
        )
        for found in (engine.what for engine in box.external_engines.filter(has_ended=False))
    ]
    return Others(
        pk=box.pk,
        slug=box.slug,
        rows=tuple(rows),
        refused=tuple(each for each in told if each.state == Action.State.REFUSED)[:3],
        may_watch=person.may_edit,
    )


def strangers() -> dict[int, int]:
    """By box, how many of them nobody watches."""
    watched = Run.objects.active().filter(is_watched=True).values("container_id")
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


def html(box: Box, person: User) -> str:
    return render_to_string("memory/_live_others.html", {"others": others_of(box, person)})

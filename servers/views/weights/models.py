"""Models: what lies on the boxes' disks, whether it is whole, and what is written beside it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from servers import events
from servers.judge.weights import checkpoints as judge
from servers.launch.commandline.command import PasteError
from servers.launch.commandline.read import read
from servers.lifecycle.weights import deletion, inventory
from servers.lifecycle.weights.inventory import ModelUse
from servers.models import Action, Box, Download, ModelInventory, Permission, StoredCheckpoint, User
from servers.views.access import allow

STATES = {
    "complete": "complete",
    "partial": "not complete",
    "without weights": "without weights",
}
WHOSE = {"unused": "in no profile", "twice": "duplicates"}


@dataclass(frozen=True, kw_only=True)
class CheckpointRow:
    stored: StoredCheckpoint
    uses: list[ModelUse]
    copies: list[StoredCheckpoint]  # the same weights elsewhere on this box
    room: judge.WeightsFit | None

    @property
    def quantization(self) -> str:
        return judge.quantization(self.stored.config)

    @property
    def context(self) -> int | None:
        return judge.context(self.stored.config)

    @property
    def architecture(self) -> str:
        return judge.architecture(self.stored.config)


@dataclass(frozen=True, kw_only=True)
class BoxModels:
    """The models of one box."""

    box: Box
    stock: ModelInventory | None
    rows: list[CheckpointRow]
    size: int  # bytes of all of them on the disks, those that are filtered away included
    count: int
    deletions: list[Action]  # that go on, or were refused

    @property
    def told_roots(self) -> list[dict[str, Any]]:
        """Without the usual folders that this box happens not to have."""
        known = self.stock.roots if self.stock else []
        return [each for each in known if not (each["is_usual"] and each["absent"])]

    @property
    def hidden(self) -> list[str]:
        return [path for each in self.told_roots for path in each["hidden"]]


@require_GET
@allow(Permission.VIEW)
def models(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "")[:200]
    state = request.GET.get("state", "")
    state = state if state in STATES or state in WHOSE else ""
    person = cast(User, request.user)
    shelves = [_shelf(box, person, text, state) for box in Box.objects.select_related("stock")]
    return render(
        request,
        "weights/list.html",
        {
            "shelves": shelves,
            "text": text,
            "state": state,
            "states": (STATES | WHOSE).items(),
            "is_filtered": bool(text or state),
            "mark": ModelInventory.objects.mark(),
            "downloads": Download.objects.for_page(),
        },
    )


def _shelf(box: Box, person: User, text: str, state: str) -> BoxModels:
    everything = list(box.stored.defer("texts"))
    shown = _filter_checkpoints(box.stored.defer("texts"), text, state)
    rows = _rows(box, shown, everything, person)
    if state == "unused":
        rows = [row for row in rows if not row.uses]
    if state == "twice":
        rows = [row for row in rows if row.copies]
    return BoxModels(
        box=box,
        stock=getattr(box, "stock", None),
        rows=rows,
        size=sum(each.size for each in everything),
        count=len(everything),
        deletions=list(deletion.list_deletions(box)),
    )


def _filter_checkpoints(
    found: QuerySet[StoredCheckpoint], text: str, state: str
) -> QuerySet[StoredCheckpoint]:
    for word in text.split():
        found = found.filter(Q(name__icontains=word) | Q(path__icontains=word))
    return found.filter(state=state) if state in STATES else found


def _rows(
    box: Box,
    shown: Iterable[StoredCheckpoint],
    everything: list[StoredCheckpoint],
    person: User,
) -> list[CheckpointRow]:
    used = inventory.uses(box, person)
    return [
        CheckpointRow(
            stored=each,
            uses=used.get(each.pk, []),
            copies=[
                other
                for other in everything
                if each.fingerprint
                and other.fingerprint == each.fingerprint
                and other.pk != each.pk
            ],
            room=judge.room(each.weights, box.gpus),
        )
        for each in shown
    ]


@require_GET
@allow(Permission.VIEW)
def model(request: HttpRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(StoredCheckpoint.objects.select_related("box"), pk=pk)
    everything = list(found.box.stored.defer("texts"))
    row = _rows(found.box, [found], everything, cast(User, request.user))[0]
    return render(
        request,
        "weights/model.html",
        {
            "row": row,
            "stored": found,
            "texts": [
                {"name": name, "text": text, "commands": _commands(text)}
                for name, text in found.texts.items()
            ],
        },
    )


def _commands(text: str) -> int:
    """How many commands that start an engine the importer finds in a text."""
    try:
        return len(read(text))
    except PasteError:
        return 0


@require_POST
@allow(Permission.OPERATE)
def models_look(_request: HttpRequest, slug: str) -> HttpResponse:
    """Ask a box to look at its disks now; the page changes by itself when it has."""
    box = get_object_or_404(Box, slug=slug)
    ModelInventory.objects.update_or_create(box=box, defaults={"wanted_at": timezone.now()})
    events.publish_change("stock")
    events.wake_watcher(box.slug, events.Topic.STOCK)
    return HttpResponse(status=204)

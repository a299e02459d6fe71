"""Pages of models: what lies on the boxes' disks, whether it is whole, and its deletion."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from servers import events, tasks
from servers.judge.weights import checkpoints as judge
from servers.launch.commandline.paste import read
from servers.launch.commandline.tokens import PasteError
from servers.lifecycle.jobs import actions
from servers.lifecycle.profiles import attempts
from servers.lifecycle.profiles.attempts import OUTCOMES, AttemptFilter
from servers.lifecycle.weights import deletion, inventory
from servers.lifecycle.weights.inventory import ModelUse
from servers.models import Box, Download, Job, ModelInventory, Permission, StoredCheckpoint, User
from servers.state import answers
from servers.views.access import PersonRequest, allow
from servers.views.responses import respond_done

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
    inventory: ModelInventory | None
    rows: list[CheckpointRow]
    size: int  # bytes of all of them on the disks, those that are filtered away included
    count: int
    deletions: list[Job]  # that go on, or were refused

    @property
    def told_roots(self) -> list[dict[str, Any]]:
        """Without the usual folders that this box happens not to have."""
        known = self.inventory.roots if self.inventory else []
        return [each for each in known if not (each["is_usual"] and each["absent"])]

    @property
    def hidden(self) -> list[str]:
        return [path for each in self.told_roots for path in each["hidden"]]


@require_GET
@allow(Permission.VIEW)
def models(request: PersonRequest) -> HttpResponse:
    text = request.GET.get("q", "")[:200]
    state = request.GET.get("state", "")
    state = state if state in STATES or state in WHOSE else ""
    person = request.user
    seen = ModelInventory.objects.by_box()
    inventories = [
        _list_models(box, seen.get(box.pk), person, text, state) for box in Box.objects.all()
    ]
    return render(
        request,
        "weights/list.html",
        {
            "inventories": inventories,
            "text": text,
            "state": state,
            "states": (STATES | WHOSE).items(),
            "is_filtered": bool(text or state),
            "mark": ModelInventory.objects.mark(),
            "downloads": Download.objects.for_page(),
        },
    )


def _list_models(
    box: Box, seen: ModelInventory | None, person: User, text: str, state: str
) -> BoxModels:
    everything = list(box.checkpoints.defer("texts"))
    shown = _filter_checkpoints(box.checkpoints.defer("texts"), text, state)
    rows = _rows(box, shown, everything, person)
    if state == "unused":
        rows = [row for row in rows if not row.uses]
    if state == "twice":
        rows = [row for row in rows if row.copies]
    return BoxModels(
        box=box,
        inventory=seen,
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
def model(request: PersonRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(StoredCheckpoint.objects.select_related("box"), pk=pk)
    everything = list(found.box.checkpoints.defer("texts"))
    row = _rows(found.box, [found], everything, request.user)[0]
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
def models_look(_request: PersonRequest, slug: str) -> HttpResponse:
    """Ask a box to look at its disks now; the page changes by itself when it has."""
    box = get_object_or_404(Box, slug=slug)
    ModelInventory.objects.update_or_create(box=box, defaults={"wanted_at": timezone.now()})
    events.publish_change("models")
    events.wake_watcher(box.slug, events.Topic.MODELS)
    return respond_done()


ANSWERS_WITHIN = 4  # seconds


@require_http_methods(["GET", "POST"])
@allow(Permission.EDIT)
def model_delete(request: PersonRequest, pk: int) -> HttpResponse:
    stored = _find(pk)
    if request.method == "POST":
        return _request_deletion(request, stored)
    query = f"asked={uuid4()}"
    context = {
        "stored": stored,
        "missers": deletion.missers(stored, request.user),
        "look": f"{reverse('model_delete_look', args=[pk])}?{query}",
    }
    return render(request, "weights/delete.html", context)


def _request_deletion(request: PersonRequest, stored: StoredCheckpoint) -> HttpResponse:
    refused = deletion.refusal(stored)
    if refused:
        messages.error(request, f"{stored} was not deleted: {refused}")
        return redirect("model_delete", pk=stored.pk)
    if not actions.ask_to_delete(stored, by=request.user):
        messages.info(request, f"{stored} is being deleted already.")
    events.publish_change("models")
    return redirect("models")


@require_GET
@allow(Permission.EDIT)
def model_delete_look(request: PersonRequest, pk: int) -> HttpResponse:
    """What would go, as the box itself says, and the button that does it."""
    stored = _find(pk)
    try:
        asked = deletion.question(stored, str(UUID(request.GET.get("asked", ""))))
    except ValueError as error:
        raise Http404("This is no question that a page has asked.") from error
    said = answers.get_answer(asked)
    if said is None:
        tasks.ask_about_stored(stored, asked)
        said = answers.wait_for_answer(asked, seconds=ANSWERS_WITHIN)
    return render(request, "weights/_delete_look.html", {"stored": stored, "said": said})


def _find(pk: int) -> StoredCheckpoint:
    return get_object_or_404(StoredCheckpoint.objects.select_related("box"), pk=pk)


A_PAGE = 50


@require_GET
@allow(Permission.VIEW)
def find_attempt_checkpoint(request: PersonRequest) -> HttpResponse:
    """?of= is the checkpoint: an id or a path, which an address would read as folders."""
    name = request.GET.get("of", "")
    found = attempts.list_attempts(name, request.user)
    if not name or not found.exists():
        raise Http404("Nobody has started this model, or it is in private profiles only.")
    wish = AttemptFilter(
        **{key: request.GET.get(key, "")[:200] for key in ("box", "outcome", "cause")}
    )
    page = Paginator(attempts.filter_attempts(found, wish), A_PAGE).get_page(
        request.GET.get("page")
    )
    return render(
        request,
        "profiles/attempts/page.html",
        {
            "name": name,
            "page": page,
            "attempts": attempts.rows(list(page), found),
            "wish": wish,
            "is_filtered": wish != AttemptFilter(),
            "boxes": attempts.boxes(found),
            "outcomes": [(key, words) for key, (words, _q) in OUTCOMES.items()],
            "causes": attempts.causes(found),
            "query": urlencode({"of": name, **{k: v for k, v in vars(wish).items() if v}}),
        },
    )

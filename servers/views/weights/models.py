"""Pages of models: what lies on the boxes' disks, whether it is whole, and its deletion."""

from urllib.parse import urlencode
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from servers import events, tasks
from servers.contexts.weights import models as model_context
from servers.contexts.weights.models import CheckpointRow
from servers.launch.commandline.paste import read
from servers.launch.commandline.tokens import PasteError
from servers.lifecycle.jobs import actions
from servers.lifecycle.profiles import attempts
from servers.lifecycle.profiles.attempts import OUTCOMES, AttemptFilter
from servers.lifecycle.weights import deletion
from servers.models import (
    Box,
    Download,
    HostResources,
    ModelInventory,
    Permission,
    StoredCheckpoint,
)
from servers.state import answers
from servers.views.access import PersonRequest, allow
from servers.views.responses import render_question, respond_done


@require_GET
@allow(Permission.VIEW)
def models(request: PersonRequest) -> HttpResponse:
    text = request.GET.get("q", "")[:200]
    state = request.GET.get("state", "")
    state = state if state in model_context.STATES else ""
    seen, resources = ModelInventory.objects.by_box(), HostResources.objects.by_box()
    rows: list[CheckpointRow] = []
    boxes = []
    for box in Box.objects.all():
        of_box = model_context.build_rows(box, request.user)
        boxes.append(
            model_context.describe_box(box, seen.get(box.pk), resources.get(box.pk), of_box)
        )
        rows += of_box
    is_it = model_context.STATES[state][1]
    return render(
        request,
        "weights/list.html",
        {
            "boxes": boxes,
            "rows": model_context.choose(filter(is_it, rows), text),
            "count": len(rows),
            "text": text,
            "state": state,
            "choices": model_context.list_choices(rows),
            "mark": ModelInventory.objects.mark(),
            "downloads": Download.objects.for_page(),
            "hub": settings.HUB,
        },
    )


@require_GET
@allow(Permission.VIEW)
def model(request: PersonRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(StoredCheckpoint.objects.select_related("box"), pk=pk)
    rows = model_context.build_rows(found.box, request.user)
    row = next(each for each in rows if each.stored.pk == pk)
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
    query = f"asked={uuid4()}{'&dialog' if 'HX-Request' in request.headers else ''}"
    context = {
        "stored": stored,
        "missers": deletion.missers(stored, request.user),
        "look": f"{reverse('model_delete_look', args=[pk])}?{query}",
    }
    return render_question(request, f"Delete {stored.name}?", "weights/_delete.html", context)


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
    context = {"stored": stored, "said": said, "is_dialog": "dialog" in request.GET}
    return render(request, "weights/_delete_look.html", context)


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

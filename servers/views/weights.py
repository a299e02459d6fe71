"""Pages of models on the boxes’ disks: whether each is whole, its deletion, and downloads from the Hub."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone

from servers import events, tasks
from servers.contexts import disks as model_context
from servers.contexts.disks import CheckpointRow
from servers.host.weights.fetch.listing import FileGroup
from servers.judge.weights import checkpoints as judge
from servers.launch import numbers
from servers.launch.commandline.paste import read
from servers.launch.commandline.tokens import PasteError
from servers.lifecycle.jobs import actions
from servers.lifecycle.profiles import attempts
from servers.lifecycle.profiles.attempts import OUTCOMES, AttemptFilter
from servers.lifecycle.weights import deletion, downloads
from servers.lifecycle.weights.downloads import DownloadRequestError
from servers.models import (
    Box,
    Download,
    HostResources,
    ModelInventory,
    Permission,
    StoredCheckpoint,
)
from servers.state import store
from servers.views.access import PersonRequest, get, get_or_post, post
from servers.views.responses import render_question, respond_done, respond_text


@get("models/", Permission.VIEW)
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


@get("models/<int:pk>/", Permission.VIEW)
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


@post("models/on/<slug:slug>/look/", Permission.OPERATE)
def models_look(_request: PersonRequest, slug: str) -> HttpResponse:
    """Ask a box to look at its disks now; the page changes by itself when it has."""
    box = get_object_or_404(Box, slug=slug)
    ModelInventory.objects.update_or_create(box=box, defaults={"wanted_at": timezone.now()})
    events.publish_change("models")
    events.wake_watcher(box.slug, events.Topic.MODELS)
    return respond_done()


ANSWERS_WITHIN = 4  # seconds


@get_or_post("models/<int:pk>/delete/", Permission.EDIT)
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


@get("models/<int:pk>/delete/look/", Permission.EDIT)
def model_delete_look(request: PersonRequest, pk: int) -> HttpResponse:
    """What would go, as the box itself says, and the button that does it."""
    stored = _find(pk)
    try:
        asked = deletion.question(stored, str(UUID(request.GET.get("asked", ""))))
    except ValueError as error:
        raise Http404("This is no question that a page has asked.") from error
    said = store.get_answer(asked)
    if said is None:
        tasks.ask_about_stored(stored, asked)
        said = store.wait_for_answer(asked, seconds=ANSWERS_WITHIN)
    context = {"stored": stored, "said": said, "is_dialog": "dialog" in request.GET}
    return render(request, "weights/_delete_look.html", context)


def _find(pk: int) -> StoredCheckpoint:
    return get_object_or_404(StoredCheckpoint.objects.select_related("box"), pk=pk)


A_PAGE = 50


@get("checkpoints/", Permission.VIEW, name="checkpoint")
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


MOST_LOOKS = 8
MIB = 2**20
# MiB a second that a page offers.
PACES = (1, 2, 5, 10, 25, 50, 100, 250, 500)
_VERBS = ("pause", "resume", "cancel", "limit")


@dataclass(frozen=True, kw_only=True)
class FileGroupRow:
    """A group of files that somebody may choose."""

    group: FileGroup
    room: judge.WeightsFit | None
    is_wanted: bool

    @property
    def value(self) -> str:
        return "\n".join(self.group.patterns)


@get("models/download/", Permission.OPERATE)
def download_new(request: PersonRequest) -> HttpResponse:
    """A model by its name; then, from the Hub, its files and where they could go."""
    boxes = list(Box.objects.all())
    typed = request.GET.get("of", "")[:500]
    revision = request.GET.get("revision", "").strip()[:200]
    chosen = next((box for box in boxes if box.slug == request.GET.get("box")), None)
    box = chosen or (boxes[0] if boxes else None)
    context: dict[str, Any] = {
        "typed": typed, "revision": revision, "boxes": boxes, "box": box, "off": _off(),
    }  # fmt: skip
    if typed.strip() and box is not None and settings.HUB:
        try:
            name, found = downloads.read_name(typed)
        except DownloadRequestError as error:
            return render(request, "weights/new_download.html", context | {"fault": str(error)})
        repository, _colon, quantization = name.partition(":")
        asked = {
            "of": repository, "quantization": quantization, "revision": revision or found or "main",
            "box": box.slug, "asked": str(uuid4()),
        }  # fmt: skip
        context |= {"look": f"{reverse('download_look')}?{urlencode(asked)}", "name": repository}
    return render(request, "weights/new_download.html", context)


def _off() -> str:
    return "" if settings.HUB else downloads.OFF


@get("models/download/look/", Permission.OPERATE)
def download_look(request: PersonRequest) -> HttpResponse:
    """What the Hub says of a model, asked by its box; again after a moment where it is slow."""
    box = get_object_or_404(Box, slug=request.GET.get("box", ""))
    try:
        asked = downloads.question(box, str(UUID(request.GET.get("asked", ""))))
        looks = int(request.GET.get("looks", "0"))
    except ValueError as error:
        raise Http404("This is no question that a page has asked.") from error
    name, revision = request.GET.get("of", "")[:200], request.GET.get("revision", "main")[:200]
    if not looks:
        tasks.ask_hub(box, asked, name, revision)
    said = store.wait_for_answer(asked, seconds=ANSWERS_WITHIN)
    context: dict[str, Any] = {"box": box, "name": name, "revision": revision, "said": said}
    if said is None:
        query = request.GET.copy()
        query["looks"] = str(looks + 1)
        again = f"{reverse('download_look')}?{query.urlencode()}" if looks < MOST_LOOKS else ""
        return render(request, "weights/_repository.html", context | {"again": again})
    if "files" in said:
        context |= _build_offer(box, said, request.GET.get("quantization", ""))
    return render(request, "weights/_repository.html", context)


def _build_offer(box: Box, said: dict[str, Any], quantization: str) -> dict[str, Any]:
    found = downloads.groups(said)
    wanted = downloads.of_quantization(said, quantization) if quantization else None
    rows = []
    for group in found:
        is_wanted = group.is_usual if wanted is None else wanted >= {f.name for f in group.files}
        room = judge.room(group.weights, box.gpus)
        rows.append(FileGroupRow(group=group, room=room, is_wanted=is_wanted))
    targets = [
        each | {"has": sum(each["there"].values()), "there_json": json.dumps(each["there"])}
        for each in said["targets"]
    ]
    first = next((each for each in targets if not each["refused"]), None)
    return {
        "rows": rows,
        "must_choose": not any(row.is_wanted and row.group.weights for row in rows),
        "targets": targets,
        "first": first,
        "paces": PACES,
    }


@post("models/download/start/", Permission.OPERATE)
def download_start(request: PersonRequest) -> HttpResponse:
    """Of the page's form, or of a profile's one button."""
    box = get_object_or_404(Box, slug=request.POST.get("box", ""))
    typed = request.POST.get("of", "")[:500]
    back = f"{reverse('download_new')}?{urlencode({'of': typed, 'box': box.slug})}"
    names = [name for each in request.POST.getlist("files") for name in each.splitlines() if name]
    if "choosing" in request.POST and not names:
        messages.error(request, "Nothing was chosen: tick what is to be downloaded.")
        return redirect(back)
    try:
        wish = downloads.read_request(
            typed,
            revision=request.POST.get("revision", "").strip()[:200],
            patterns=names,
            into=request.POST.get("into", "")[:1000],
            limit=_pace(request),
        )
        made, is_new = downloads.ask(box, wish, by=request.user)
    except (DownloadRequestError, ValueError) as error:
        messages.error(request, str(error))
        return redirect(back)
    if not is_new:
        messages.info(request, f"{made} is on its way to {box} already.")
    return redirect(f"{reverse('models')}#downloads")


def _pace(request: PersonRequest) -> int:
    """Bytes a second. Raises ValueError."""
    given = request.POST.get("limit", "0")
    pace = numbers.whole(given)
    if pace is None or pace not in (0, *PACES):
        raise ValueError(f"{given[:20]} is none of the paces: {', '.join(map(str, PACES))} MiB/s.")
    return pace * MIB


@get("models/downloads/<int:pk>/<slug:verb>/ask/", Permission.OPERATE)
def download_ask(request: PersonRequest, pk: int, verb: str) -> HttpResponse:
    """What to cancel means, or which pace there may be."""
    found = get_object_or_404(Download.objects.select_related("box"), pk=pk)
    if verb not in ("cancel", "limit"):
        raise Http404(f"A download is not asked about {verb}.")
    context = {"download": found, "verb": verb, "paces": PACES, "pace": found.limit // MIB}
    return render(request, "weights/_download_ask.html", context)


@post("models/downloads/<int:pk>/<slug:verb>/", Permission.OPERATE)
def download_act(request: PersonRequest, pk: int, verb: str) -> HttpResponse:
    found = get_object_or_404(Download.objects.select_related("box"), pk=pk)
    if verb not in _VERBS:
        raise Http404(f"A download knows no {verb}.")
    if found.is_over and verb != "resume":
        return respond_text(f"The download of {found} is over: {found.status}.")
    match verb:
        case "pause":
            downloads.pause(found, by=request.user)
        case "resume":
            downloads.resume(found, by=request.user)
        case "cancel":
            drops = request.POST.get("parts") == "drop"
            downloads.cancel(found, by=request.user, drop_parts=drops)
        case _:
            try:
                downloads.limit(found, _pace(request), by=request.user)
            except ValueError as error:
                return respond_text(str(error))
    return respond_done()

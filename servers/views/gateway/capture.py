"""Capture: switched on and ended by admins, and what it has kept, which they alone read."""

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db import transaction
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from servers import events
from servers.forms.capture import CaptureForm
from servers.gateway.routes import look
from servers.models import AuditEntry, Capture, CapturedCall, Permission
from servers.models.gateway.capture import KEPT
from servers.views.access import PersonRequest, allow
from servers.views.responses import send_file

PER_PAGE = 25
EARLIER = 10
ABOUT = (
    "Programs find x-inferdash-capture in the answer. Secrets of known shapes are masked; the first "
    "256 KiB of a question and of an answer are kept, without pictures and other files. Answers that "
    "are not finished when capture ends are not kept, and the playground’s conversations never are."
)


@require_http_methods(["GET", "POST"])
@allow(Permission.ADMINISTER)
def capture(request: PersonRequest) -> HttpResponse:
    form = CaptureForm(request.POST or None, names=_names())
    if request.method == "POST" and form.is_valid():
        _switch_on(request, form.cleaned_data)
        return redirect("capture")
    text = request.GET.get("q", "")[:200]
    kept = CapturedCall.objects.recent()
    page = Paginator(kept.for_table().search(text), PER_PAGE).get_page(request.GET.get("page"))
    captures = Capture.objects.select_related("by", "ended_by")
    return render(
        request,
        "gateway/capture.html",
        {
            "form": form,
            "about_capture": ABOUT,
            "on": list(captures.active()),
            "exchanges": page,
            "kept": kept.count(),
            "days": KEPT.days,
            "text": text,
            "earlier": [each for each in captures[: EARLIER + 1] if not each.is_on][:EARLIER],
        },
    )


def _names() -> list[str]:
    """By which programs may ask."""
    ready, absent = look()
    named = [each.names for each in ready] + [each.names for each in absent]
    return sorted({name for names in named for name in names})


def _switch_on(request: PersonRequest, said: dict[str, Any]) -> None:
    with transaction.atomic():
        if (on := Capture.objects.active().first()) is not None:
            messages.error(request, f"{on.by} has capture on already. End that first.")
            return
        now = timezone.now()
        made = Capture.objects.create(
            by=request.user, reason=said["reason"], only=said["only"], began_at=now,
            until=now + said["lasts"],
        )  # fmt: skip
        until = timezone.localtime(made.until).isoformat(timespec="minutes")
        AuditEntry.note(request.user, "switch capture on", made, until=until, reason=made.reason)
        transaction.on_commit(partial(events.publish_change, "capture"))
    messages.success(request, "Capture is on. Every page says so, to everybody.")


@require_POST
@allow(Permission.ADMINISTER)
def capture_end(request: PersonRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(Capture, pk=pk)
    with transaction.atomic():
        has_ended = Capture.objects.end(found, request.user)
        if has_ended:
            AuditEntry.note(request.user, "end capture", found)
            transaction.on_commit(partial(events.publish_change, "capture"))
    if has_ended:
        messages.success(request, "Capture is off. What was kept stays until it is deleted.")
    else:
        messages.info(request, "It was over already.")
    return redirect("capture")


@require_GET
@allow(Permission.ADMINISTER)
def show_captured(request: PersonRequest, pk: int) -> HttpResponse:
    exchange = get_object_or_404(CapturedCall.objects.recent().for_table(), pk=pk)
    return render(request, "gateway/captured.html", {"exchange": exchange, "days": KEPT.days})


@require_GET
@allow(Permission.ADMINISTER)
def captured_download(request: PersonRequest) -> StreamingHttpResponse:
    """What is kept, or of it what matches: JSON, one exchange a line."""
    text = request.GET.get("q", "")[:200]
    AuditEntry.note(request.user, "download captured", text or "all")
    name = f"inferdash-captured-{timezone.localtime():%Y%m%d-%H%M}.jsonl"
    return send_file(name, _lines(text), "application/jsonl; charset=utf-8")


async def _lines(text: str) -> AsyncIterator[str]:
    async for each in CapturedCall.objects.recent().for_table().search(text).aiterator():
        asked = each.request
        said = {
            "at": asked.at.isoformat(),
            "person": asked.person.username if asked.person else None,
            "key": asked.key.name if asked.key else None,
            "from": asked.source,
            "model": asked.model,
            "server": asked.server,
            "path": asked.path,
            "status": asked.status,
            "cancelled": asked.cancelled,
            "error": asked.error,
            "asked": each.asked,
            "asked_bytes_left_out": each.asked_left_out,
            "answered": each.answered,
            "answered_bytes_left_out": each.answered_left_out,
            "reason": each.capture.reason,
        }
        yield json.dumps(said, ensure_ascii=False) + "\n"


@require_POST
@allow(Permission.ADMINISTER)
def captured_delete(request: PersonRequest) -> HttpResponse:
    with transaction.atomic():
        count, _of_which = CapturedCall.objects.all().delete()
        AuditEntry.note(request.user, "delete captured", f"{count} requests")
    messages.success(request, "Deleted: all prompts and answers that were kept.")
    return redirect("capture")

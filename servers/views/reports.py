"""Reports: a page that shows the whole file, takes what is true, and saves the file. Nothing is sent."""

import hashlib
import re
from collections.abc import Callable
from typing import cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone

from servers.judge.reports import document
from servers.launch.engines import ENGINES
from servers.lifecycle import reports
from servers.lifecycle.reports import MadeReport, ReportWishes
from servers.models import AuditEntry, Box, Permission, Run, User
from servers.models.runs.run import PARTS
from servers.state import samples
from servers.views.access import get_or_post, post
from servers.views.responses import send_text

_LONGEST_TRUTH = 500  # characters
_MOST_WORDS = 40
# Fewer than are kept, so that those of an open page are not cut off while it is read.
_MOST_SNAPSHOTS = samples.RECORDED * 2 // 3
_SHORTEST_WORD = 2
_LINE = re.compile(r"[0-9]{1,12}")


@get_or_post("runs/<int:run_id>/report/", Permission.VIEW)
def run_report(request: HttpRequest, run_id: int) -> HttpResponse:
    """Of a failure; whoever may read its log may report it."""
    runs = Run.objects.select_related("server__box", "server__profile", "version", *PARTS)
    run = get_object_or_404(runs, pk=run_id)
    # The same lines as were shown, though the log goes on.
    said = request.POST.get("last", "")
    last = int(said) if _LINE.fullmatch(said) else reports.find_last_line(run)
    context: dict[str, object] = {
        "kind": "failure",
        "run": run,
        "last": str(last),  # as it is, whatever the language
        "can_hide_model": run.launch.serves_models,
    }
    return _answer(
        request, context, lambda wishes: reports.report_run(run, wishes, last=last), run.server
    )


@get_or_post("boxes/<slug:slug>/report/", Permission.VIEW)
def box_report(request: HttpRequest, slug: str) -> HttpResponse:
    """Of the verdict on the memory of a GPU, which ?gpu= names by its UUID."""
    box = get_object_or_404(Box, slug=slug)
    gpu = request.GET.get("gpu", "")[:200]
    recording = samples.read_recording(box.slug)
    # The same snapshots as were shown, though the watcher has gone on recording.
    since, until = (_read_number(request.POST.get(name, "")) for name in ("since", "until"))
    if since is not None and until is not None:
        recording = [each for each in recording if since <= each["t"] <= until]
    recording = recording[-_MOST_SNAPSHOTS:]
    context: dict[str, object] = {"kind": "memory", "box": box}
    if not recording:
        return render(request, "report.html", {**context, "is_without_recording": True})
    context |= {"since": repr(recording[0]["t"]), "until": repr(recording[-1]["t"])}
    return _answer(
        request, context, lambda wishes: reports.report_verdict(box, gpu, recording, wishes), box
    )


@post("profiles/paste/report/", Permission.EDIT)
def paste_report(request: HttpRequest) -> HttpResponse:
    """Of a paste that was read wrongly. The text comes along with every step: nothing is kept."""
    text = request.POST.get("text", "")
    said = request.POST.get("engine", "")
    engine = said if said in ENGINES else ""
    context: dict[str, object] = {"kind": "paste", "text": text, "engine": engine}
    return _answer(
        request, context, lambda wishes: reports.report_paste(text, engine, wishes), "a paste"
    )


def _answer(
    request: HttpRequest,
    context: dict[str, object],
    make: Callable[[ReportWishes], MadeReport],
    subject: object,
) -> HttpResponse:
    """The page, or the file if it is the very one that the page has shown."""
    wishes = _read_wishes(request)
    made = make(wishes)
    text = document.write(made.report)
    digest = hashlib.sha256(text.encode()).hexdigest()
    wants_file = "save" in request.POST
    if wants_file and request.POST.get("shown") == digest:
        AuditEntry.note(cast(User, request.user), "save report", subject, kind=made.report.kind)
        # Its name tells neither box nor server.
        name = f"inferdash-{made.report.kind}-{timezone.now():%Y-%m-%d-%H%M}.txt"
        return send_text(name, text)
    return render(
        request,
        "report.html",
        {
            **context,
            "wishes": wishes,
            "words": "\n".join(wishes.words),
            "report": text,
            "digest": digest,
            "unsure": made.unsure,
            "has_changed": wants_file,
            "longest": _LONGEST_TRUTH,
        },
    )


def _read_wishes(request: HttpRequest) -> ReportWishes:
    words = (line.strip() for line in request.POST.get("words", "").splitlines())
    return ReportWishes(
        truth=" ".join(request.POST.get("truth", "").split())[:_LONGEST_TRUTH],
        hides_model="hides_model" in request.POST,
        words=[word for word in words if len(word) >= _SHORTEST_WORD][:_MOST_WORDS],
    )


def _read_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

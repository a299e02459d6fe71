"""Deleting a model from a box's disks: who would miss it and what it frees, then the wish."""

from uuid import UUID, uuid4

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from servers import events, tasks
from servers.lifecycle.jobs import actions
from servers.lifecycle.weights import deletion
from servers.models import Permission, StoredCheckpoint
from servers.state import answers
from servers.views.access import PersonRequest, allow

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
    events.publish_change("stock")
    return redirect("models")


@require_GET
@allow(Permission.EDIT)
def model_delete_look(request: HttpRequest, pk: int) -> HttpResponse:
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

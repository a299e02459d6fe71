"""Choices that the profile form offers while one types: the models and images of a box."""

from typing import Any

from django.http import JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET

from servers.judge.weights import checkpoints as judge
from servers.launch import numbers
from servers.lifecycle.weights import inventory
from servers.models import Box, HostResources, Permission, StoredCheckpoint
from servers.templatetags.format import gib
from servers.views.access import PersonRequest, allow

_STATES = {"complete": "complete", "partial": "not complete"}


@require_GET
@allow(Permission.EDIT)
def profile_models(request: PersonRequest) -> JsonResponse:
    """Those on the box's disks, as the combobox of models lists them."""
    box = _find_box(request)
    stored = box.checkpoints.filter(is_adapter=False).defer("texts")
    options = [_describe(each, box) for each in stored if each.state in _STATES]
    return JsonResponse(
        {
            "options": options,
            "empty": f"Not on {box.slug}: the first start downloads it from Hugging Face.",
        }
    )


def _describe(stored: StoredCheckpoint, box: Box) -> dict[str, Any]:
    source = inventory.describe_source(stored)
    room = judge.room(stored.weights, box.gpus)
    told = (
        gib(stored.size),
        judge.quantization(stored.config) or stored.format,
        _STATES[stored.state],
        room.words if room else "",
    )
    return {
        "value": source["checkpoint"],
        "name": stored.name,
        "detail": " · ".join(filter(None, told)),
        "sets": {"revision": source["revision"]},
        "adds": {"volumes": "\n".join(source["volumes"])},
    }


@require_GET
@allow(Permission.EDIT)
def profile_images(request: PersonRequest) -> JsonResponse:
    """Those in the box's Docker that profiles name, or that have told their flags."""
    box = _find_box(request)
    told = {each.reference: each for each in box.image_facts.exclude(version="").defer("flags")}
    found = HostResources.objects.by_box().get(box.pk)
    there = [name for name, facts in (found.images if found else {}).items() if facts]
    options = [
        {"value": name, "name": name, "detail": told[name].title if name in told else ""}
        for name in sorted({*there, *told})
    ]
    return JsonResponse(
        {"options": options, "empty": f"Not on {box.slug}: the first start pulls it."}
    )


def _find_box(request: PersonRequest) -> Box:
    return get_object_or_404(Box, pk=numbers.whole(request.GET.get("box", "")) or 0)

"""One box: what it has, what it lacks, and who holds its memory."""

from typing import cast

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from servers.contexts import pages
from servers.contexts.external import others
from servers.contexts.memory import care
from servers.judge.memory import holders
from servers.models import Box, Permission, Server, User
from servers.state import box_samples
from servers.views.access import allow


@require_GET
@allow(Permission.VIEW)
def box(request: HttpRequest, slug: str) -> HttpResponse:
    found = get_object_or_404(Box, slug=slug)
    return render(
        request,
        "memory/page.html",
        {
            "box": found,
            "panel": pages.panel(found),
            "care": care.care_of(found, cast(User, request.user)),
            "others": others.others_of(found, cast(User, request.user)),
            "limits": sorted(found.facts.get("limits", {}).items()),
            "openings": found.facts.get("openings", []),
            "servers": Server.objects.for_dashboard().filter(box=found),
        },
    )


@require_GET
@allow(Permission.VIEW)
def box_history(request: HttpRequest, slug: str) -> JsonResponse:
    """The last 15 minutes of every GPU, one list a figure."""
    found = get_object_or_404(Box, slug=slug)
    return JsonResponse(
        holders.columns(box_samples.chart_points(found.slug)), headers={"Cache-Control": "no-store"}
    )

"""Pages of external engines, and how a profile compares with its source."""

from typing import cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET

from servers.contexts.external import found
from servers.launch.commandline import comparison
from servers.models import Box, Permission, ProfileImport, User
from servers.views.access import allow
from servers.views.profiles.profiles import find


@require_GET
@allow(Permission.VIEW)
def show_found(request: HttpRequest) -> HttpResponse:
    """The first page of the first admin: what is on the box. A box that is not there yet appears
    on the dashboard."""
    first = Box.objects.first()
    return redirect("box_found", slug=first.slug) if first else redirect("dashboard")


@require_GET
@allow(Permission.VIEW)
def box_found(request: HttpRequest, slug: str) -> HttpResponse:
    box = get_object_or_404(Box, slug=slug)
    person = cast(User, request.user)
    context = {"box": box, "findings": found.found_on(box, person)}
    return render(request, "external/page.html", context)


@require_GET
@allow(Permission.VIEW)
def profile_compared(request: HttpRequest, slug: str) -> HttpResponse:
    """What the container or process was that a profile was made of, beside what it would start."""
    profile = find(request, slug)
    likeness = get_object_or_404(
        ProfileImport.objects.select_related("version", "box").order_by("-made_at"),
        pk=_newest(profile.pk),
    )
    rows = [comparison.ComparedField.from_json(each) for each in likeness.rows]
    context = {
        "profile": profile,
        "likeness": likeness,
        "groups": [
            (title, [row for row in rows if row.verdict == verdict])
            for verdict, title in comparison.TITLES.items()
        ],
        "is_current": likeness.version_id == profile.current_id,
    }
    return render(request, "external/compared.html", context)


def _newest(profile: int) -> int:
    found = ProfileImport.objects.filter(version__profile=profile).order_by("-made_at")
    return found.values_list("pk", flat=True).first() or 0

"""A version of a profile, its difference from another, and the way back to it."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from servers.launch import numbers
from servers.launch.engines import diff
from servers.models import Permission
from servers.views.access import allow
from servers.views.profiles.profiles import find, save_launch


@require_GET
@allow(Permission.VIEW)
def profile_version(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """A version beside the one before it, or beside ?against=."""
    found = find(request, slug)
    versions = found.versions.select_related("author")
    version = get_object_or_404(versions, number=number)
    wanted = numbers.whole(request.GET.get("against", ""))
    against = versions.filter(number=number - 1 if wanted is None else wanted).first()
    return render(
        request,
        "profiles/version.html",
        {
            "profile": found,
            "version": version,
            "against": against,
            "others": versions.exclude(pk=version.pk),
            "differences": diff.compare(against.launch, version.launch) if against else None,
            "runs": version.runs.select_related("server__box").order_by("-pk")[:10],
        },
    )


@require_POST
@allow(Permission.EDIT)
def version_restore(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Save what an older version says as a new one."""
    found = find(request, slug)
    version = get_object_or_404(found.versions, number=number)
    if version.launch == found.launch:
        messages.info(request, f"Version {number} says what the newest one says.")
        return redirect("profile", slug=found.slug)
    made = save_launch(
        request,
        found,
        version.launch,
        message=f"Back to version {number}",
        action="restore version",
    )
    messages.success(request, f"Version {made.number} says what version {number} said.")
    return redirect("profile", slug=found.slug)

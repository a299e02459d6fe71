"""Profiles: the list, and one profile."""

from collections.abc import Collection
from dataclasses import asdict
from typing import Any, cast

from django.core.exceptions import BadRequest, PermissionDenied
from django.core.paginator import Paginator
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from servers import events, lifecycle, tasks
from servers.forms.profile_values import opens_the_box
from servers.judge.runs import start_chart
from servers.launch.engines import ENGINES, choices, parameters
from servers.launch.engines.launch import Launch
from servers.lifecycle.profiles import preflight
from servers.lifecycle.weights import checkpoints, download_offers
from servers.models import (
    AuditEntry,
    Box,
    ImageFacts,
    Permission,
    Profile,
    ProfileImport,
    Run,
    Server,
    User,
)
from servers.models.profiles import record
from servers.models.profiles.profile import ProfileFilter, ProfileHealth, ProfileVersion, Stale
from servers.views.access import allow

A_PAGE = 100
LATEST = 10  # runs on a profile's page


@require_GET
@allow(Permission.VIEW)
def profiles(request: HttpRequest) -> HttpResponse:
    wanted = ProfileFilter(
        text=request.GET.get("q", "")[:200],
        engine=_read_filter(request, "engine", ENGINES),
        health=_read_filter(request, "health", ProfileHealth.values),
    )
    found = Profile.objects.for_list(cast(User, request.user), wanted)
    page = Paginator(found, A_PAGE).get_page(request.GET.get("page"))
    counts = preflight.of_profiles(page)
    return render(
        request,
        "profiles/list.html",
        {
            "page": page,
            "rows": [{"profile": each, "count": counts[each.pk]} for each in page],
            "wanted": wanted,
            "is_filtered": wanted != ProfileFilter(),
            "engines": choices(),
            "healths": ProfileHealth.choices,
        },
    )


def _read_filter(request: HttpRequest, name: str, among: Collection[str]) -> str:
    value = request.GET.get(name, "")
    return value if value in among else ""


@require_GET
@allow(Permission.VIEW)
def profile(request: HttpRequest, slug: str) -> HttpResponse:
    found = find(request, slug)
    servers = list(found.servers.select_related("box", "run").order_by("box__slug", "slug"))
    return render(
        request,
        "profiles/profile.html",
        {
            "profile": found,
            "launch": found.launch,
            "record": record.compute_record(found),
            "is_compared": ProfileImport.objects.filter(version__profile=found).exists(),
            "chart": start_chart.chart(record.starts(found)),
            "is_favourite": found.fans.filter(pk=cast(User, request.user).pk).exists(),
            "versions": found.versions.select_related("author"),
            "runs": Run.objects.filter(server__profile=found).select_related("server", "version")[
                :LATEST
            ],
            "servers": [{"server": server, **_build_known(found, server)} for server in servers],
            # What holds everywhere, for one that is on no box.
            "checked": preflight.anywhere(found.launch) if not servers else None,
            # One more server of the same box says something only with values of its own.
            "free_boxes": Box.objects.all()
            if found.launch.parameters
            else Box.objects.exclude(servers__in=[each for each in servers if not each.is_watched]),
        },
    )


@require_GET
@allow(Permission.VIEW)
def profile_known(request: HttpRequest, slug: str, server: str) -> HttpResponse:
    """The part of a profile's page that depends on what a box's image has said of itself."""
    found = find(request, slug)
    placed = get_object_or_404(found.servers.select_related("box", "run"), slug=server)
    context = {"profile": found, "launch": found.launch, "server": placed}
    return render(request, "profiles/_known.html", context | _build_known(found, placed))


def _build_known(found: Profile, server: Server) -> dict[str, Any]:
    launch = parameters.fill(found.launch, server.values)
    tasks.look_at_mounts(launch, server.box)
    checked = preflight.check(launch, server.box, found, server)
    return {
        "preview": lifecycle.preview(launch, server.box),
        "checked": checked,
        "findings": checked.findings,
        "fit": checked.fit,
        "image": ImageFacts.objects.find_for_launch(launch, server.box),
        "offer": download_offers.find_offer(launch, server.box, found),
    }


@require_POST
@allow(Permission.VIEW)
def profile_favourite(request: HttpRequest, slug: str) -> HttpResponse:
    found, person = find(request, slug), cast(User, request.user)
    if request.POST.get("is") == "yes":
        found.fans.add(person)
    else:
        found.fans.remove(person)
    return redirect("profile", slug=found.slug)


def save_launch(
    request: HttpRequest, found: Profile, launch: Launch, *, message: str, action: str
) -> ProfileVersion:
    """Make the launch the profile's newest version, in one step that a person has asked for.

    Raises PermissionDenied for settings that only an admin may save, BadRequest when somebody
    else saves at the same moment.
    """
    person = cast(User, request.user)
    if opens_the_box(asdict(launch)) and not person.may_administer:
        raise PermissionDenied(
            f"It would give {found} settings that only an admin may give a container, such as "
            "privileged or devices. Ask an admin to do it."
        )
    try:
        with transaction.atomic():
            found.claim(saves=found.saves)
            version = found.save_version(launch, by=person, message=message)
            AuditEntry.note(person, action, found, version=version.number)
            checkpoints.look_soon(found)
    except Stale:
        raise BadRequest(
            f"Somebody else has just saved {found}. Look at it and try again."
        ) from None
    events.publish_change("servers")
    return version


def find(request: HttpRequest, slug: str) -> Profile:
    seen = Profile.objects.seen_by(cast(User, request.user))
    return get_object_or_404(seen.select_related("current", "owner"), slug=slug)

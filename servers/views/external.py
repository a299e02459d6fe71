"""Pages of external engines, and how a profile compares with its source."""

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from servers import lifecycle
from servers.contexts import external
from servers.judge.external.engines import DiscoveredEngine
from servers.launch.commandline import comparison
from servers.lifecycle.external import import_diff
from servers.lifecycle.jobs import actions
from servers.lifecycle.runs.ownership import require_external
from servers.models import Box, Permission, ProfileImport, Server
from servers.views.access import PersonRequest, get, post
from servers.views.profiles.profiles import find
from servers.views.responses import respond_done, respond_requested, respond_text


@get("found/", Permission.VIEW, name="found")
def show_found(request: PersonRequest) -> HttpResponse:
    """The first page of the first admin: what is on the box. A box that is not there yet appears
    on the dashboard."""
    first = Box.objects.first()
    return redirect("box_found", slug=first.slug) if first else redirect("dashboard")


@get("boxes/<slug:slug>/found/", Permission.VIEW)
def box_found(request: PersonRequest, slug: str) -> HttpResponse:
    box = get_object_or_404(Box, slug=slug)
    person = request.user
    context = {
        "box": box,
        "boxes": Box.objects.all(),
        "findings": external.found_on(box, person),
    }
    return render(request, "external/page.html", context)


@get("profiles/<slug:slug>/compared/", Permission.VIEW)
def profile_compared(request: PersonRequest, slug: str) -> HttpResponse:
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


# Watching makes a profile, which is an editor's to make.
@get("boxes/<slug:slug>/others/<slug:key>/ask/", Permission.EDIT)
def box_watch_ask(request: PersonRequest, slug: str, key: str) -> HttpResponse:
    """What it means to watch it, and the button that does it."""
    box = get_object_or_404(Box, slug=slug)
    context = {"box": box, "found": _find_watchable(box, key), "key": key}
    return render(request, "memory/_watch.html", context)


@post("boxes/<slug:slug>/others/<slug:key>/watch/", Permission.EDIT)
def box_watch(request: PersonRequest, slug: str, key: str) -> HttpResponse:
    box = get_object_or_404(Box, slug=slug)
    found = _find_watchable(box, key)
    if found is None:
        return respond_text("It does not run any more, so there is nothing to monitor.")
    return respond_requested(actions.ask_to_watch(box, found, by=request.user))


@post("servers/<slug:slug>/unwatch/", Permission.EDIT)
def server_unwatch(request: PersonRequest, slug: str) -> HttpResponse:
    server = get_object_or_404(Server.objects.select_related("box"), slug=slug)
    if not server.is_watched:
        return respond_text(f"{server} is inferdash’s own: stop it, then remove it.")
    lifecycle.unwatch(require_external(server), by=request.user)
    return respond_done()


@post("boxes/<slug:slug>/others/<slug:key>/profile/", Permission.EDIT)
def box_profile(request: PersonRequest, slug: str, key: str) -> HttpResponse:
    """A profile of what was seen, running or not; it is read by the box's watcher."""
    box = get_object_or_404(Box, slug=slug)
    found = _find_seen(box, key)
    if found is None:
        return respond_text("It is not there any more, so that nothing of it can be read.")
    return respond_requested(actions.ask_for_profile(box, found, by=request.user))


@get("boxes/<slug:slug>/others/<slug:key>/takeover/ask/", Permission.EDIT)
def box_take_over_ask(request: PersonRequest, slug: str, key: str) -> HttpResponse:
    """What will be done, what would bring the old one back, and the button, once it is named."""
    box = get_object_or_404(Box, slug=slug)
    found = _find_running(box, key)
    context: dict[str, object] = {"box": box, "found": found, "key": key}
    if found is not None:
        context |= {
            "profile": import_diff.profile_of(box, found.container),
            "revivers": found.revivers,
        }
    return render(request, "external/_take_over.html", context)


@post("boxes/<slug:slug>/others/<slug:key>/takeover/", Permission.EDIT)
def box_take_over(request: PersonRequest, slug: str, key: str) -> HttpResponse:
    box = get_object_or_404(Box, slug=slug)
    found = _find_running(box, key)
    if found is None:
        return respond_text("It does not run any more, so that there is nothing to take over from.")
    if request.POST.get("name", "").strip() != found.name:
        return respond_text(f"Type its name, {found.name}, to say that it is the one you mean.")
    return respond_requested(actions.ask_to_take_over(box, found, by=request.user))


def _find_seen(box: Box, key: str) -> DiscoveredEngine | None:
    """What the watcher has seen under this key; None when it is gone."""
    seen = (
        box.external_engines.filter(container_id__startswith=key).first() if len(key) > 4 else None
    )
    found = DiscoveredEngine.from_json(seen.found) if seen else None
    return found if found and found.key == key else None


def _find_running(box: Box, key: str) -> DiscoveredEngine | None:
    found = _find_seen(box, key)
    return found if found and not found.has_ended and not found.origin.install else None


def _find_watchable(box: Box, key: str) -> DiscoveredEngine | None:
    """What the watcher has seen under this key and that may be watched."""
    found = _find_seen(box, key)
    return found if found and not found.has_ended else None

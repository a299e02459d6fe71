"""Buttons and fixes on a server's card. They answer 204: the socket changes the card everywhere."""

from dataclasses import asdict
from typing import cast

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST

from servers import lifecycle, tasks
from servers.forms.profile_values import opens_the_box
from servers.launch.engines import parameters
from servers.lifecycle.gateway import scale_to_zero
from servers.lifecycle.logs import diagnoses
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs.ownership import require_managed
from servers.models import Permission, Server, User
from servers.models.runs.ownership import ManagedServer
from servers.views.access import allow
from servers.views.profiles.checks import apply_fix, refusal
from servers.views.profiles.profiles import find, save_launch
from servers.views.runs import starts

DONE = 204
FORBIDDEN, CONFLICT = 403, 409


def _find(slug: str) -> ManagedServer:
    """Raises ExternalRunError: none of these buttons is for a server that is only watched."""
    servers = Server.objects.select_related("profile__current", "box", "run")
    return require_managed(get_object_or_404(servers, slug=slug))


def _person(request: HttpRequest) -> User:
    return cast(User, request.user)


@require_POST
@allow(Permission.OPERATE)
def server_start(request: HttpRequest, slug: str) -> HttpResponse:
    found = _find(slug)
    question = refusal(request, found)
    if question is not None:
        return question
    starts.begin(request, found)
    return HttpResponse(status=DONE)


@require_POST
@allow(Permission.OPERATE)
def start_fix(request: HttpRequest, slug: str, rule: str) -> HttpResponse:
    """Save what the dialog of a start advises, and go on to the start, which asks about the rest."""
    found = _find(slug)
    profile = find(request, found.profile.slug)
    apply_fix(request, profile, rule, [LaunchContext.of_server(found)])
    if found.runs.active().exists():
        return server_restart(request, slug)
    return server_start(request, slug)


@require_POST
@allow(Permission.OPERATE)
def run_start(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Start exactly what an earlier run was: its version, image and commit of the checkpoint."""
    found, person = _find(slug), _person(request)
    ran = found.runs.select_related("version").exclude(image_id="")
    like = get_object_or_404(ran, pk=pk)
    is_old = like.version_id != found.profile.current_id
    if is_old and opens_the_box(asdict(like.version.launch)) and not person.may_administer:
        return HttpResponse(
            f"Version {like.version.number} has settings that only an admin may give a container, "
            "such as privileged or devices, and it is not the newest. Ask an admin to start it.",
            status=FORBIDDEN,
            content_type="text/plain",
        )
    question = refusal(request, found, like.launch)
    if question is not None:
        return question
    if starts.begin(request, found, like=like) is None:
        return HttpResponse(
            f"{found} is running. Stop it first, then start it as it ran.",
            status=CONFLICT,
            content_type="text/plain",
        )
    return HttpResponse(status=DONE)


@require_POST
@allow(Permission.OPERATE)
def server_stop(request: HttpRequest, slug: str) -> HttpResponse:
    found = _find(slug)
    lifecycle.call_off(found, by=_person(request))
    run = found.runs.active().filter_managed().first()
    if run is not None:
        drained = request.POST.get("when") == "drained"
        lifecycle.stop(run, by=_person(request), after_requests=drained)
        tasks.nudge(run)
    return HttpResponse(status=DONE)


@require_POST
@allow(Permission.OPERATE)
def server_keep(request: HttpRequest, slug: str) -> HttpResponse:
    """Nobody's request stops it from now on, and no idleness."""
    scale_to_zero.keep(_find(slug), by=_person(request))
    return HttpResponse(status=DONE)


@require_POST
@allow(Permission.OPERATE)
def server_let(request: HttpRequest, slug: str) -> HttpResponse:
    """Let requests start what somebody has stopped."""
    scale_to_zero.let(_find(slug), by=_person(request))
    return HttpResponse(status=DONE)


@require_POST
@allow(Permission.OPERATE)
def server_restart(request: HttpRequest, slug: str) -> HttpResponse:
    found = _find(slug)
    replaces = found.runs.active().exists()
    question = refusal(request, found, replaces=replaces)
    if question is not None:
        return question
    if not replaces:
        starts.begin(request, found)
        return HttpResponse(status=DONE)
    run = lifecycle.restart(found, by=_person(request), despite=starts.despite(request))
    if run is not None:
        tasks.nudge(run)
    return HttpResponse(status=DONE)


@require_POST
@allow(Permission.OPERATE)
def server_remove(request: HttpRequest, slug: str) -> HttpResponse:
    server = _find(slug)
    if not lifecycle.remove(server, by=_person(request)):
        return HttpResponse(
            f"{server} is running. Stop it first, then remove it.",
            status=CONFLICT,
            content_type="text/plain",
        )
    return HttpResponse(status=DONE)


FIX_CONFLICT = 409


@require_POST
@allow(Permission.OPERATE)
def run_fix(request: HttpRequest, slug: str, pk: int, number: int) -> HttpResponse:
    """Save the fix as the profile's newest version and start the server with it.

    A fix that is known to fail in another way asks first: nothing is saved until then.
    """
    servers = Server.objects.select_related("profile__current", "box")
    server = require_managed(get_object_or_404(servers, slug=slug, removed_at=None))
    runs = server.runs.select_related(
        "server__profile__current", "server__box", "version", "plan__repeats"
    )
    run = get_object_or_404(runs, pk=pk)
    profile = find(request, server.profile.slug)
    change = diagnoses.change(run, number)
    if change is None:
        raise Http404("The profile says so already.")
    if server.runs.active().exists():
        return _text(f"{server} is running. Stop it first, then apply the fix.", FIX_CONFLICT)
    launch = change.apply(profile.launch)
    question = refusal(request, server, parameters.fill(launch, server.values))
    if question is not None:
        return question
    version = save_launch(
        request, profile, launch, message=f"Fix: {run.log.cause}", action="apply fix"
    )
    server.profile.current = version
    if starts.begin(request, server) is None:
        return _text(
            f"Saved as version {version.number}. Somebody else has started {server} meanwhile.",
            FIX_CONFLICT,
        )
    return HttpResponse(status=DONE)


def _text(sentence: str, status: int) -> HttpResponse:
    return HttpResponse(sentence, status=status, content_type="text/plain")

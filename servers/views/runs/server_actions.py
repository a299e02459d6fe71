"""Buttons and fixes on servers’ cards, and one action on several servers at once."""

from collections.abc import Callable
from dataclasses import asdict

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404

from servers import lifecycle
from servers.forms.profile import opens_the_box
from servers.launch.engines.launch import fill_parameters
from servers.lifecycle import gateway
from servers.lifecycle.logs import diagnoses
from servers.lifecycle.people import claims
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs.ownership import require_managed
from servers.models import Permission, Server
from servers.models.runs.run import ManagedServer
from servers.views.access import PersonRequest, post
from servers.views.profiles.checks import apply_fix
from servers.views.profiles.profiles import find, save_launch
from servers.views.responses import respond_done, respond_text, respond_told
from servers.views.runs import starts

FORBIDDEN = 403


def _find(slug: str) -> ManagedServer:
    """Raises ExternalRunError: none of these buttons is for a server that is only watched."""
    servers = Server.objects.select_related("profile__current", "box", "run")
    return require_managed(get_object_or_404(servers, slug=slug))


@post("servers/<slug:slug>/start/", Permission.OPERATE)
def server_start(request: PersonRequest, slug: str) -> HttpResponse:
    found = _find(slug)
    question = starts.refusal(request, found)
    if question is not None:
        return question
    starts.begin(request, found)
    return respond_done()


@post("servers/<slug:slug>/start/fix/<slug:rule>/", Permission.OPERATE)
def start_fix(request: PersonRequest, slug: str, rule: str) -> HttpResponse:
    """Save what the dialog of a start advises, and go on to the start, which asks about the rest."""
    found = _find(slug)
    profile = find(request, found.profile.slug)
    apply_fix(request, profile, rule, [LaunchContext.of_server(found)])
    if found.runs.active().exists():
        return server_restart(request, slug)
    return server_start(request, slug)


@post("servers/<slug:slug>/runs/<int:pk>/start/", Permission.OPERATE)
def run_start(request: PersonRequest, slug: str, pk: int) -> HttpResponse:
    """Start exactly what an earlier run was: its version, image and commit of the checkpoint."""
    found, person = _find(slug), request.user
    ran = found.runs.select_related("version").exclude(image_id="")
    like = get_object_or_404(ran, pk=pk)
    is_old = like.version_id != found.profile.current_id
    if is_old and opens_the_box(asdict(like.version.launch)) and not person.may_administer:
        return respond_text(
            f"Version {like.version.number} has settings that only an admin may give a container, "
            "such as privileged or devices, and it is not the newest. Ask an admin to start it.",
            FORBIDDEN,
        )
    question = starts.refusal(request, found, like.launch)
    if question is not None:
        return question
    if starts.begin(request, found, like=like) is None:
        return respond_text(f"{found} is running. Stop it first, then start it as it ran.")
    return respond_done()


@post("servers/<slug:slug>/stop/", Permission.OPERATE)
def server_stop(request: PersonRequest, slug: str) -> HttpResponse:
    drained = request.POST.get("when") == "drained"
    starts.stop(_find(slug), by=request.user, after_requests=drained)
    return respond_done()


@post("servers/<slug:slug>/keep/", Permission.OPERATE)
def server_keep(request: PersonRequest, slug: str) -> HttpResponse:
    """Nobody's request stops it from now on, and no idleness."""
    gateway.keep(_find(slug), by=request.user)
    return respond_done()


@post("servers/<slug:slug>/let/", Permission.OPERATE)
def server_let(request: PersonRequest, slug: str) -> HttpResponse:
    """Let requests start what somebody has stopped."""
    gateway.let(_find(slug), by=request.user)
    return respond_done()


@post("servers/<slug:slug>/restart/", Permission.OPERATE)
def server_restart(request: PersonRequest, slug: str) -> HttpResponse:
    found = _find(slug)
    replaces = found.runs.active().exists()
    question = starts.refusal(request, found, replaces=replaces)
    if question is not None:
        return question
    if not replaces:
        starts.begin(request, found)
        return respond_done()
    starts.restart(found, by=request.user, despite=starts.despite(request))
    return respond_done()


@post("servers/<slug:slug>/remove/", Permission.OPERATE)
def server_remove(request: PersonRequest, slug: str) -> HttpResponse:
    server = _find(slug)
    if not lifecycle.remove(server, by=request.user):
        return respond_text(f"{server} is running. Stop it first, then remove it.")
    return respond_done()


@post("servers/<slug:slug>/restore/", Permission.OPERATE)
def server_restore(request: PersonRequest, slug: str) -> HttpResponse:
    lifecycle.restore(_find(slug), by=request.user)
    return respond_done()


@post("servers/<slug:slug>/runs/<int:pk>/fix/<int:number>/", Permission.OPERATE)
def run_fix(request: PersonRequest, slug: str, pk: int, number: int) -> HttpResponse:
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
        return respond_text(f"{server} is running. Stop it first, then apply the fix.")
    launch = change.apply(profile.launch)
    question = starts.refusal(request, server, fill_parameters(launch, server.values))
    if question is not None:
        return question
    version = save_launch(
        profile, launch, by=request.user, message=f"Fix: {run.log.cause}", action="apply fix"
    )
    server.profile.current = version
    if starts.begin(request, server) is None:
        return respond_text(
            f"Saved as version {version.number}. Somebody else has started {server} meanwhile.",
        )
    return respond_done()


MOST_AT_ONCE = 200


@post("bulk/servers/", Permission.OPERATE)
def servers_bulk(request: PersonRequest) -> HttpResponse:
    act, word = _VERBS.get(request.POST.get("verb", ""), (None, ""))
    servers = _find_several(request.POST.getlist("server")[:MOST_AT_ONCE])
    if act is None or not servers:
        return respond_text("Select servers first, then what to do with them.")
    done, refused = [], []
    for server in servers:
        why = act(request, server)
        if why:
            refused.append(f"{server}: {why}.")
        else:
            done.append(str(server))
    if not done:
        return respond_text(" ".join(("Nothing was changed.", *refused)))
    said = done[0] if len(done) == 1 else f"{len(done)} servers"
    verb = "is" if len(done) == 1 else "are"
    return respond_told(" ".join((f"{said} {verb} being {word}.", *refused)))


def _find_several(slugs: list[str]) -> list[ManagedServer]:
    """Those of them that inferdash itself starts and stops."""
    found = Server.objects.present().filter_managed().filter(slug__in=slugs)
    return [require_managed(each) for each in found.with_details().order_by("slug")]


def _start(request: PersonRequest, server: ManagedServer) -> str:
    """Why not; "" when it is being started."""
    if not server.can_start:
        return "it runs already"
    if starts.refusal(request, server) is not None:
        return "its start has a question, so start it by itself"
    return "" if starts.begin(request, server) else "it runs already"


def _stop(request: PersonRequest, server: ManagedServer) -> str:
    """Why not; "" when it is being stopped, or no more started again."""
    person, run = request.user, server.runs.active().filter_managed().first()
    if run is not None and (run.concerns_others(person) or claims.against_stop(server, person)):
        return "others may use it, so stop it by itself"
    return "" if starts.stop(server, by=person) else "it does not run"


_VERBS: dict[str, tuple[Callable[[PersonRequest, ManagedServer], str] | None, str]] = {
    "start": (_start, "started"),
    "stop": (_stop, "stopped"),
}

"""The known fix of a failed run: applied to its profile as a new version, and started."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST

from servers.launch.engines import parameters
from servers.lifecycle.external import guard
from servers.lifecycle.logs import diagnoses
from servers.models import Permission, Server
from servers.views.access import allow
from servers.views.profiles.checks import refusal
from servers.views.profiles.profiles import find, save_launch
from servers.views.runs import starts

DONE = 204
CONFLICT = 409


@require_POST
@allow(Permission.OPERATE)
def run_fix(request: HttpRequest, slug: str, pk: int, number: int) -> HttpResponse:
    """Save the fix as the profile's newest version and start the server with it.

    A fix that is known to fail in another way asks first: nothing is saved until then.
    """
    server = get_object_or_404(
        Server.objects.select_related("profile__current", "box"), slug=slug, removed_at=None
    )
    guard.check(server)
    runs = server.runs.select_related("server__profile__current", "server__box", "version", "like")
    run = get_object_or_404(runs, pk=pk)
    profile = find(request, server.profile.slug)
    change = diagnoses.change(run, number)
    if change is None:
        raise Http404("The profile says so already.")
    if server.runs.active().exists():
        return _text(f"{server} is running. Stop it first, then apply the fix.", CONFLICT)
    launch = change.apply(profile.launch)
    question = refusal(request, server, parameters.fill(launch, server.values))
    if question is not None:
        return question
    version = save_launch(request, profile, launch, message=f"Fix: {run.cause}", action="apply fix")
    server.profile.current = version
    if starts.begin(request, server) is None:
        return _text(
            f"Saved as version {version.number}. Somebody else has started {server} meanwhile.",
            CONFLICT,
        )
    return HttpResponse(status=DONE)


def _text(sentence: str, status: int) -> HttpResponse:
    return HttpResponse(sentence, status=status, content_type="text/plain")

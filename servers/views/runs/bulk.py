"""One action on several servers: each as by its own button, and one sentence about all."""

from collections.abc import Callable

from django.http import HttpResponse
from django.views.decorators.http import require_POST

from servers import lifecycle, tasks
from servers.lifecycle.people import claims
from servers.lifecycle.runs.ownership import require_managed
from servers.models import Permission, Server
from servers.models.runs.ownership import ManagedServer
from servers.views.access import PersonRequest, allow
from servers.views.profiles.checks import refusal
from servers.views.responses import respond_text, respond_told
from servers.views.runs import starts

MOST = 200


@require_POST
@allow(Permission.OPERATE)
def servers_bulk(request: PersonRequest) -> HttpResponse:
    act, word = _VERBS.get(request.POST.get("verb", ""), (None, ""))
    servers = _find(request.POST.getlist("server")[:MOST])
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


def _find(slugs: list[str]) -> list[ManagedServer]:
    """Those of them that inferdash itself starts and stops."""
    found = Server.objects.present().filter_managed().filter(slug__in=slugs)
    return [require_managed(each) for each in found.with_details().order_by("slug")]


def _start(request: PersonRequest, server: ManagedServer) -> str:
    """Why not; "" when it is being started."""
    if not server.can_start:
        return "it runs already"
    if refusal(request, server) is not None:
        return "its start has a question, so start it by itself"
    return "" if starts.begin(request, server) else "it runs already"


def _stop(request: PersonRequest, server: ManagedServer) -> str:
    """Why not; "" when it is being stopped, or no more started again."""
    person, run = request.user, server.runs.active().filter_managed().first()
    if run is not None and (run.concerns_others(person) or claims.against_stop(server, person)):
        return "others may use it, so stop it by itself"
    was_due = lifecycle.call_off(server, by=person)
    if run is None:
        return "" if was_due else "it does not run"
    lifecycle.stop(run, by=person)
    tasks.nudge(run)
    return ""


_VERBS: dict[str, tuple[Callable[[PersonRequest, ManagedServer], str] | None, str]] = {
    "start": (_start, "started"),
    "stop": (_stop, "stopped"),
}

"""Starts of servers, and the dialog when GPUs are in use."""

from django.http import HttpResponse

from servers import lifecycle, tasks
from servers.forms import environment as form
from servers.judge.runs.gpu_conflicts import GpuConflict
from servers.lifecycle.people import claims
from servers.lifecycle.profiles import preflight
from servers.models import Run, Server
from servers.models.runs.ownership import ManagedRun, ManagedServer
from servers.views.access import PersonRequest
from servers.views.responses import ask_in_dialog

_ASKED = "asked_start"  # in the session: the slug of a server


def plan_start(request: PersonRequest, server: Server) -> None:
    """Let the server's page, which is shown next, begin its start: a save has asked for it."""
    request.session[_ASKED] = server.slug


def take_planned(request: PersonRequest, server: Server) -> bool:
    """Whether its page is to begin a start, once."""
    if request.session.get(_ASKED) != server.slug:
        return False
    del request.session[_ASKED]
    return request.user.may_operate and server.can_start


def despite(request: PersonRequest) -> str:
    """Why somebody starts it although something is known to fail."""
    return request.POST.get("despite", "").strip()[:300]


def begin(
    request: PersonRequest, server: ManagedServer, *, like: Run | None = None
) -> ManagedRun | None:
    """Queue the run, ask for the end of those that it is to take the place of, and nudge.

    None when the server already runs: then nobody is stopped for it either.
    """
    choice, person = form.read_start(request.POST), request.user
    run = lifecycle.start(
        server, by=person, despite=despite(request), like=like, patience=choice.patience
    )
    if run is None:
        return None
    others = (
        Run.objects.active().filter_managed().filter(pk__in=choice.runs, server__box=server.box_id)
    )
    for other in others.exclude(pk=run.pk).select_related("server__box"):
        lifecycle.stop(other, by=person, after_requests=choice.answer == "drain")
        tasks.nudge(other)
    tasks.nudge(run)
    return run


def question(
    request: PersonRequest,
    server: Server,
    found: GpuConflict,
    checked: preflight.PreflightResult,
    *,
    is_of_profile: bool,
) -> HttpResponse | None:
    """What to do about who is on its GPUs (`found`); None when nobody is, or it was answered.

    `is_of_profile`: it starts what its profile says now, which a fix of the profile changes.
    """
    choice, person = form.read_start(request.POST), request.user
    if choice.answer not in ("", "beside"):
        return None
    if despite(request) and person.may_edit:
        return None
    is_refused = found.is_loading or bool(checked.faults)
    if not found.holders or (choice.answer == "beside" and not is_refused):
        return None
    return ask_in_dialog(
        request,
        "runs/_taken.html",
        {
            "server": server,
            "taken": found,
            "stoppable": [each for each in found.holders if each.may_be_stopped],
            "person": person,
            "action": request.path,
            "times": form.TIMES.items(),
            "usually": form.USUALLY,
            "findings": checked.faults,
            "checked": checked,
            "is_refused": is_refused,
            "is_of_profile": is_of_profile,
        },
    )


def claim_question(
    request: PersonRequest, server: Server, gpus: frozenset[int] | None
) -> HttpResponse | None:
    """Whether to start it on what others have claimed; None when that was answered, or nobody has."""
    if not server.box.current_claims:
        return None
    found = claims.against_start(server, gpus, request.user)
    seen = request.POST.getlist("claim")
    if all(str(each.pk) in seen for each in found):
        return None
    # What was answered to the questions before this one goes on with its answer.
    answers = [
        (name, value)
        for name in ("do", "wait", "holder", "despite")
        for value in request.POST.getlist(name)
    ]
    context = {"server": server, "claims": found, "answers": answers, "action": request.path}
    return ask_in_dialog(request, "people/claims/start.html", context)

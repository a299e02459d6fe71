"""Starts of servers, and the dialogs that ask first: what is known to fail, who uses its GPUs."""

from django.http import HttpResponse

from servers import lifecycle, tasks
from servers.forms import environment as form
from servers.judge.runs.gpu_conflicts import GpuConflict
from servers.launch.engines.launch import Launch
from servers.lifecycle.people import claims
from servers.lifecycle.profiles import preflight
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.profiles.preflight import PreflightResult
from servers.lifecycle.runs import gpu_conflicts
from servers.models import Run, Server, User
from servers.models.runs.run import ManagedRun, ManagedServer
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


def stop(server: ManagedServer, *, by: User, after_requests: bool = False) -> bool:
    """Call off a start that is planned, and ask the run to end; False where there is neither."""
    was_due = lifecycle.call_off(server, by=by)
    run = server.runs.active().filter_managed().first()
    if run is not None:
        lifecycle.stop(run, by=by, after_requests=after_requests)
        tasks.nudge(run)
    return was_due or run is not None


def restart(server: ManagedServer, *, by: User, despite: str = "") -> None:
    run = lifecycle.restart(server, by=by, despite=despite)
    if run is not None:
        tasks.nudge(run)


def refusal(
    request: PersonRequest, server: Server, launch: Launch | None = None, *, replaces: bool = False
) -> HttpResponse | None:
    """The question that a start asks first; None when there is nothing to ask.

    `launch` is what is to be started, if not what the profile says now, which a fix would change.
    One that `replaces` what runs of the server already has its GPUs.
    """
    context = LaunchContext.of_server(server, launch)
    tasks.look_at_mounts(context)
    checked = preflight.check(context)
    found = None if replaces else gpu_conflicts.before_start(context, checked.known)
    shown = {
        "server": server,
        "checked": checked,
        "findings": checked.faults,
        "person": request.user,
        "action": request.path,
        "is_of_profile": launch is None,
    }
    asked = _object(request, found, checked, shown)
    if asked is not None or found is None:
        return asked
    return _ask_about_claims(request, server, found.start.gpus)


def _object(
    request: PersonRequest,
    found: GpuConflict | None,
    checked: PreflightResult,
    shown: dict[str, object],
) -> HttpResponse | None:
    # Who is loading now, or has the memory now, can be waited for.
    errors = [each for each in checked.errors if found is None or each.id != "loading"]
    faults = checked.faults if found is None else checked.lasting
    insists = bool(despite(request)) and request.user.may_edit
    if not errors and not faults and found is not None:
        asked = None if insists else _ask_about_holders(request, found, checked, shown)
        if asked is not None or form.read_start(request.POST).answer:
            return asked
    if insists or not (errors or checked.faults):
        return None
    context = {**shown, "items": checked.errors, "fit": checked.fit}
    return ask_in_dialog(request, "runs/_despite.html", context)


def _ask_about_holders(
    request: PersonRequest, found: GpuConflict, checked: PreflightResult, shown: dict[str, object]
) -> HttpResponse | None:
    """What to do about who is on its GPUs; None when nobody is, or it was answered."""
    answer = form.read_start(request.POST).answer
    is_refused = found.is_loading or bool(checked.faults)
    is_answered = answer not in ("", "beside") or (answer == "beside" and not is_refused)
    if is_answered or not found.holders:
        return None
    context = {
        **shown,
        "taken": found,
        "stoppable": [each for each in found.holders if each.may_be_stopped],
        "times": form.TIMES.items(),
        "usually": form.USUALLY,
        "is_refused": is_refused,
    }
    return ask_in_dialog(request, "runs/_taken.html", context)


def _ask_about_claims(
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

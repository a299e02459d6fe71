"""Sets of prompts: asked of whichever server is up, kept with its run, runs beside one another."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Count, Max
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone

from servers.forms.conversation import (
    BODY_LIMIT,
    COLUMNS,
    KeepError,
    PromptSetForm,
    read_answer,
    read_round,
)
from servers.lifecycle.links import ways
from servers.models import AuditEntry, Permission, PromptAnswer, PromptRun, PromptSet, Run
from servers.models.runs.run import DesiredState, RunState
from servers.views.access import PersonRequest, get, get_or_post, post
from servers.views.gateway.chat import build_context
from servers.views.responses import respond_done

LISTED = 50  # rounds that one may choose from
BESIDE = 2  # that are shown where nobody has chosen


@get("chat/prompts/", Permission.OPERATE)
def prompt_sets(request: PersonRequest) -> HttpResponse:
    found = PromptSet.objects.select_related("by")
    found = found.annotate(asked=Count("prompt_runs"), asked_at=Max("prompt_runs__at"))
    server = request.GET.get("server", "")
    return render(
        request,
        "gateway/prompts/list.html",
        {
            "sets": found,
            "query": f"?{urlencode({'server': server})}" if server else "",
        },
    )


@get_or_post("chat/prompts/new/", Permission.OPERATE)
def prompt_set_new(request: PersonRequest) -> HttpResponse:
    return _form(request, PromptSet())


@get_or_post("chat/prompts/<int:pk>/edit/", Permission.OPERATE)
def prompt_set_edit(request: PersonRequest, pk: int) -> HttpResponse:
    return _form(request, get_object_or_404(PromptSet, pk=pk))


def _form(request: PersonRequest, found: PromptSet) -> HttpResponse:
    form = PromptSetForm(request.POST if request.method == "POST" else None, instance=found)
    if request.method == "POST" and form.is_valid():
        found.prompts, found.by, found.saved_at = form.prompts, request.user, timezone.now()
        form.save()
        AuditEntry.note(request.user, "save prompt set", found, prompts=len(found.prompts))
        return redirect("prompt_set", pk=found.pk)
    return render(request, "gateway/prompts/form.html", {"form": form, "set": found})


@post("chat/prompts/<int:pk>/delete/", Permission.OPERATE)
def prompt_set_delete(request: PersonRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(PromptSet, pk=pk)
    AuditEntry.note(request.user, "delete prompt set", found, rounds=found.prompt_runs.count())
    found.delete()
    messages.success(request, f"“{found}” is deleted, with the answers to it.")
    return redirect("prompt_sets")


@get("chat/prompts/<int:pk>/", Permission.OPERATE)
def prompt_set(request: PersonRequest, pk: int) -> HttpResponse:
    """The chosen rounds side by side; the newest two where none is."""
    found = get_object_or_404(PromptSet, pk=pk)
    rounds = list(found.prompt_runs.for_table()[:LISTED])
    wanted = {each for each in request.GET.getlist("round") if each.isdecimal()}
    shown = [each for each in rounds if str(each.pk) in wanted][:COLUMNS] or rounds[:BESIDE]
    columns = [
        {"letter": letter, "round": each, "sees": _sees(request, each)}
        for letter, each in zip("ABCD", shown, strict=False)
    ]
    return render(
        request,
        "gateway/prompts/set.html",
        build_context(request)
        | {
            "set": found,
            "rounds": rounds,
            "chosen": [each.pk for each in shown],
            "columns": columns,
            "changes": _changes(shown),
            "told": [_describe_round(request, each) for each in shown],
            "params": rounds[0].params if rounds else {},
            "begun": request.GET.get("ask", ""),
            "most": COLUMNS,
        },
    )


@post("chat/prompts/<int:pk>/rounds/", Permission.OPERATE)
def round_begin(request: PersonRequest, pk: int) -> JsonResponse:
    """A round of the set as it is now; the page that shows it asks."""
    found = get_object_or_404(PromptSet, pk=pk)
    try:
        begun = read_round(request.read(BODY_LIMIT))
        ready = Run.objects.filter(state=RunState.READY, wanted=DesiredState.RUNNING)
        run = ready.select_related("server").filter(pk=begun.run_id).first()
        if run is None:
            raise KeepError("This server is not ready any more. Pick one that is.")
    except KeepError as error:
        return JsonResponse({"message": str(error)}, status=400)
    made = found.prompt_runs.create(
        run=run, by=request.user, prompts=found.prompts, params=begun.params
    )
    AuditEntry.note(request.user, "ask prompt set", run.server, set=found.name)
    return JsonResponse({"url": f"{reverse('prompt_set', args=[found.pk])}?ask={made.pk}"})


@post("chat/rounds/<int:pk>/answers/<int:place>/", Permission.OPERATE)
def round_answer(request: PersonRequest, pk: int, place: int) -> HttpResponse:
    """One answer of a round of one's own, as it came."""
    found = get_object_or_404(PromptRun, pk=pk, by=request.user)
    try:
        if place >= len(found.prompts):
            raise KeepError("This round has no such prompt. Reload the page.")
        body = read_answer(request.read(BODY_LIMIT + 1), place)
    except KeepError as error:
        return JsonResponse({"message": str(error)}, status=400)
    PromptAnswer.objects.update_or_create(round=found, place=place, defaults={"body": body})
    return respond_done()


@post("chat/rounds/<int:pk>/delete/", Permission.OPERATE)
def round_delete(request: PersonRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(PromptRun.objects.select_related("prompt_set", "run__server"), pk=pk)
    AuditEntry.note(request.user, "delete round", found.run.server, set=found.prompt_set.name)
    found.delete()
    return redirect("prompt_set", pk=found.prompt_set_id)


def _sees(request: PersonRequest, each: PromptRun) -> bool:
    """Whether the profile's page is there for who looks."""
    profile = each.run.version.profile
    return not profile.is_private or request.user.may_administer or profile.owner == request.user


def _describe_round(request: PersonRequest, each: PromptRun) -> dict[str, Any]:
    """What the page's script has on a round."""
    run = each.run
    is_here = ways.has_way(run.server.box)
    is_up = run.state == RunState.READY and run.wanted == DesiredState.RUNNING
    return {
        "id": each.pk,
        "prompts": each.prompts,
        "params": each.params,
        "answers": {answer.place: answer.body for answer in each.answers.all()},
        "run": run.pk,
        "slug": run.server.slug,
        "model": run.served_name,
        "engine": run.version.launch.engine,
        "url": reverse("server", args=[run.server.slug]),
        # Its own person goes on with it, while the run that it was begun with is up here.
        "isMine": each.by_id == request.user.pk,
        "isUp": is_up and run.server.run_id == run.pk and is_here,
        "keep": reverse("round_answer", args=[each.pk, 0])[: -len("0/")],
    }


def _changes(shown: list[PromptRun]) -> list[dict[str, Any]]:
    """Of each round and the one beside it, the older first: what was another one."""
    pairs = zip(shown[1:], shown, strict=False)
    return [_change(older, newer) for older, newer in pairs]


def _change(older: PromptRun, newer: PromptRun) -> dict[str, Any]:
    before, after = older.run.version, newer.run.version
    is_same_profile = before.profile_id == after.profile_id
    said: list[str] = []
    if older.run_id == newer.run_id:
        said.append("the same run")
    elif before.pk == after.pk:
        said.append(f"the same version of {after.profile}")
    elif not is_same_profile:
        said.append(f"{before.profile} before, {after.profile} now")
    for name, old, new in [
        ("engine version", older.run.start.engine_version, newer.run.start.engine_version),
        ("server", older.run.server.slug, newer.run.server.slug),
    ]:
        if old != new:
            said.append(f"{name} {old or 'not known'} before, {new or 'not known'} now")
    said += [
        f"{name.replace('_', ' ')} {older.params.get(name) or 'default'} before, "
        f"{newer.params.get(name) or 'default'} now"
        for name in sorted({*older.params, *newer.params})
        if older.params.get(name, "") != newer.params.get(name, "")
    ]
    if older.prompts != newer.prompts:
        said.append("the prompts have been edited between them")
    link = ""
    if is_same_profile and before.pk != after.pk:
        link = reverse("profile_version", args=[after.profile.slug, after.number])
        link += f"?against={before.number}"
    return {"said": said, "link": link, "before": before, "after": after}

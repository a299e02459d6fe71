"""One box: what it has, what it lacks, who holds its memory, and who claims its GPUs.

They write what is wanted; the box's watcher does it, after a look of its own.
"""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render

from servers.contexts import external, pages
from servers.contexts.memory import care_of, may
from servers.forms.people import ClaimForm
from servers.judge.memory import holders
from servers.judge.memory.orphans import Orphan
from servers.launch import numbers
from servers.lifecycle import memory
from servers.lifecycle.images import work
from servers.lifecycle.jobs import actions
from servers.lifecycle.people import claims
from servers.models import Box, Claim, Permission, Server
from servers.models.jobs import ACTIONS, JobKind
from servers.state import samples
from servers.templatetags.format import LIMITS
from servers.views.access import PersonRequest, get, get_or_post, post
from servers.views.responses import ask_in_dialog, respond_done, respond_requested, respond_text


@get("boxes/<slug:slug>/", Permission.VIEW)
def box(request: PersonRequest, slug: str) -> HttpResponse:
    found = get_object_or_404(Box, slug=slug)
    context = {
        "care": care_of(found, request.user),
        "others": external.others_of(found, request.user),
        "servers": Server.objects.for_dashboard().filter(box=found),
        "person": request.user,
    }
    return _render_tab(request, found, "overview", context)


@get("boxes/<slug:slug>/hardware/", Permission.VIEW)
def box_hardware(request: PersonRequest, slug: str) -> HttpResponse:
    """Its clocks, limits, links, identifiers and set-up, and what is checked of them."""
    return _render_tab(request, get_object_or_404(Box, slug=slug), "hardware", {})


@get("boxes/<slug:slug>/permissions/", Permission.VIEW)
def box_permissions(request: PersonRequest, slug: str) -> HttpResponse:
    """What box.toml lets containers do, and which of it is wider than need be."""
    found = get_object_or_404(Box, slug=slug)
    limits: dict[str, Any] = found.facts.get("limits", {})
    names = [*(each for each in LIMITS if each in limits), *sorted({*limits} - {*LIMITS})]
    context = {
        "limits": [(name, limits[name]) for name in names],
        "openings": found.facts.get("openings", []),
    }
    return _render_tab(request, found, "permissions", context)


def _render_tab(
    request: PersonRequest, box: Box, tab: str, context: dict[str, Any]
) -> HttpResponse:
    shared = {"box": box, "panel": pages.panel(box), "tab": tab}
    return render(request, f"memory/{tab}.html", shared | context)


@get("boxes/<slug:slug>/history.json", Permission.VIEW)
def box_history(request: PersonRequest, slug: str) -> JsonResponse:
    """The last 15 minutes of every GPU, one list a figure."""
    found = get_object_or_404(Box, slug=slug)
    return JsonResponse(
        holders.columns(samples.chart_points(found.slug)), headers={"Cache-Control": "no-store"}
    )


@get("boxes/<slug:slug>/actions/<slug:kind>/<slug:key>/ask/", Permission.OPERATE)
def box_action_ask(request: PersonRequest, slug: str, kind: str, key: str) -> HttpResponse:
    """What the action will do, and the button that does it."""
    box, wanted = _check_allowed(request, slug, kind)
    context = {"box": box, "kind": str(wanted), "key": key}
    if wanted == JobKind.RECLAIM:
        level = _level(key)
        context |= {
            "level": level,
            "objection": memory.object_to_reclaim(box, samples.newest(box.slug)),
            "is_allowed": bool(box.facts.get("limits", {}).get("reclaim")),
            "command": memory.reclaim_command(level),
        }
    elif wanted == JobKind.PULL:
        context["image"] = _find_server(box, key).launch.image
    else:
        context |= {"left": _find_orphan(box, wanted, key)}
    return render(request, "memory/_action.html", context)


@post("boxes/<slug:slug>/actions/<slug:kind>/<slug:key>/", Permission.OPERATE)
def box_action(request: PersonRequest, slug: str, kind: str, key: str) -> HttpResponse:
    box, wanted = _check_allowed(request, slug, kind)
    by = request.user
    if wanted == JobKind.RECLAIM:
        is_new = actions.ask_to_reclaim(box, _level(key), by=by)
    elif wanted == JobKind.PULL:
        server = _find_server(box, key)
        image, slug = server.launch.image, server.slug
        is_new = work.ask_to_pull(box, image, by=by, server=slug) is not None
    else:
        left = _find_orphan(box, wanted, key)
        if left is None:
            return respond_text(actions.GONE)
        is_new = actions.ask(box, wanted, by=by, left=left)
    return respond_requested(is_new)


def _check_allowed(request: PersonRequest, slug: str, kind: str) -> tuple[Box, JobKind]:
    if kind not in (*ACTIONS, JobKind.PULL):
        raise Http404("There is no such action.")
    wanted = JobKind(kind)
    if not may(request.user, wanted):
        raise PermissionDenied("This needs the role admin: it takes the rights of the box itself.")
    return get_object_or_404(Box, slug=slug), wanted


def _level(key: str) -> int:
    word, _hyphen, number = key.partition("-")
    if word != "level" or number not in map(str, memory.LEVELS):
        raise Http404("There is no such level.")
    return int(number)


def _find_server(box: Box, key: str) -> Server:
    """By its key: the image that it would run next is pulled, never one that was typed."""
    word, _hyphen, number = key.partition("-")
    pk = numbers.whole(number)
    if word != "server" or pk is None:
        raise Http404("There is no such server.")
    servers = box.servers.select_related("profile__current")
    return get_object_or_404(servers, pk=pk, profile__current__isnull=False)


def _find_orphan(box: Box, kind: JobKind, key: str) -> Orphan | None:
    """What was left behind under this key, if that can be done to it; None when it is gone."""
    for said in box.left_behind:
        if said["key"] == key and kind in said["actions"]:
            return Orphan.from_json(said)
    return None


@get_or_post("boxes/<slug:slug>/claims/", Permission.OPERATE)
def box_claim(request: PersonRequest, slug: str) -> HttpResponse:
    """The dialog that claims GPUs of a box."""
    return _claim(request, get_object_or_404(Box, slug=slug), None)


@get_or_post("servers/<slug:slug>/claims/", Permission.OPERATE)
def server_claim(request: PersonRequest, slug: str) -> HttpResponse:
    """The dialog that claims a server."""
    server = get_object_or_404(Server.objects.select_related("box"), slug=slug, removed_at=None)
    return _claim(request, server.box, server)


def _claim(request: PersonRequest, box: Box, server: Server | None) -> HttpResponse:
    person = request.user
    form = ClaimForm(request.POST or None, box=None if server else box)
    if request.method == "POST" and form.is_valid():
        said = form.cleaned_data
        try:
            claims.claim(
                box,
                by=person,
                until=said["until"],
                note=said["note"],
                gpus=said.get("gpus", ()),
                server=server,
            )
        except claims.ClaimError as error:
            form.add_error(None, str(error))
        else:
            return respond_done()
    active = box.claims.active().filter(server=server)
    context = {"box": box, "server": server, "form": form, "claims": active, "person": person}
    # A dialog is shown again with what is wrong in it.
    show = ask_in_dialog if form.errors else render
    return show(request, "people/claims/dialog.html", context)


@post("claims/<int:pk>/end/", Permission.OPERATE)
def claim_end(request: PersonRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(Claim.objects.select_related("by", "server", "box"), pk=pk)
    try:
        claims.release(found, by=request.user)
    except claims.ClaimError as error:
        return respond_text(str(error))
    return respond_done()

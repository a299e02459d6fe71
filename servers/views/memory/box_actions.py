"""The buttons of a box's page: what was left behind ended, deleted, adopted; memory reclaimed.

They write what is wanted; the box's watcher does it, after a look of its own.
"""

from typing import cast

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET, require_POST

from servers.contexts.memory.care import may
from servers.judge.memory.orphans import Orphan
from servers.launch import numbers
from servers.lifecycle.jobs import actions
from servers.lifecycle.memory import reclaim
from servers.models import Box, Permission, User
from servers.models.jobs.action import ActionKind
from servers.state import box_samples
from servers.views.access import allow

DONE = 204
CONFLICT = 409


@require_GET
@allow(Permission.OPERATE)
def box_action_ask(request: HttpRequest, slug: str, kind: str, key: str) -> HttpResponse:
    """What the action will do, and the button that does it."""
    box, wanted = _check_allowed(request, slug, kind)
    context = {"box": box, "kind": str(wanted), "key": key}
    if wanted == ActionKind.RECLAIM:
        level = _level(key)
        context |= {
            "level": level,
            "objection": reclaim.objection(box, box_samples.newest(box.slug)),
            "is_allowed": bool(box.facts.get("limits", {}).get("reclaim")),
            "command": reclaim.command(level),
        }
    elif wanted == ActionKind.PULL:
        context["image"] = _image(box, key)
    else:
        context |= {"left": _find_orphan(box, wanted, key)}
    return render(request, "memory/_action.html", context)


@require_POST
@allow(Permission.OPERATE)
def box_action(request: HttpRequest, slug: str, kind: str, key: str) -> HttpResponse:
    box, wanted = _check_allowed(request, slug, kind)
    by = cast(User, request.user)
    if wanted == ActionKind.RECLAIM:
        is_new = actions.ask_to_reclaim(box, _level(key), by=by)
    elif wanted == ActionKind.PULL:
        is_new = actions.ask_to_pull(box, _image(box, key), by=by)
    else:
        left = _find_orphan(box, wanted, key)
        if left is None:
            return _text(actions.GONE)
        is_new = actions.ask(box, wanted, by=by, left=left)
    if not is_new:
        return _text("Somebody has asked for the same a moment ago: it is on its way.")
    return HttpResponse(status=DONE)


def _check_allowed(request: HttpRequest, slug: str, kind: str) -> tuple[Box, ActionKind]:
    if kind not in ActionKind.values:
        raise Http404("There is no such action.")
    wanted = ActionKind(kind)
    if not may(cast(User, request.user), wanted):
        raise PermissionDenied("This needs the role admin: it takes the rights of the box itself.")
    return get_object_or_404(Box, slug=slug), wanted


def _level(key: str) -> int:
    word, _hyphen, number = key.partition("-")
    if word != "level" or number not in map(str, reclaim.LEVELS):
        raise Http404("There is no such level.")
    return int(number)


def _image(box: Box, key: str) -> str:
    """The image that a server would run next, by the server's key; never one that was typed."""
    word, _hyphen, number = key.partition("-")
    pk = numbers.whole(number)
    if word != "server" or pk is None:
        raise Http404("There is no such server.")
    servers = box.servers.select_related("profile__current")
    server = get_object_or_404(servers, pk=pk, profile__current__isnull=False)
    return server.launch.image


def _find_orphan(box: Box, kind: ActionKind, key: str) -> Orphan | None:
    """What was left behind under this key, if that can be done to it; None when it is gone."""
    for said in box.left_behind:
        if said["key"] == key and kind in said["actions"]:
            return Orphan.from_json(said)
    return None


def _text(sentence: str) -> HttpResponse:
    return HttpResponse(sentence, status=CONFLICT, content_type="text/plain")

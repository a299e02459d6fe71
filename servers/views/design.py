"""A page that shows every component of the pages in every state, for those who write pages."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from servers.models import Permission
from servers.models.runs.run import RunState
from servers.views.access import PersonRequest, allow

SPACES = (4, 8, 12, 16, 24, 40)
COLOURS = (
    "page",
    "raised",
    "soft",
    "line",
    "strong-line",
    "text",
    "quiet",
    "accent",
    "accent-soft",
    "ready",
    "ready-soft",
    "attention",
    "attention-soft",
    "unhealthy",
    "unhealthy-soft",
    "failed",
    "failed-soft",
)
# As in tests/icons.py.
ICONS = (
    "activity",
    "alerts",
    "branch",
    "check",
    "chevron",
    "close",
    "conversations",
    "copy",
    "dashboard",
    "delete",
    "down",
    "download",
    "edit",
    "failed",
    "gateway",
    "gauge",
    "images",
    "info",
    "key",
    "log",
    "menu",
    "minus",
    "models",
    "more",
    "person",
    "picture",
    "playground",
    "plus",
    "profiles",
    "ready",
    "restart",
    "search",
    "send",
    "servers",
    "settings",
    "sidebar",
    "star",
    "start",
    "stop",
    "warning",
)


@require_GET
@allow(Permission.ADMINISTER)
def show_design(request: PersonRequest) -> HttpResponse:
    return render(
        request,
        "design.html",
        {
            "spaces": SPACES,
            "colours": COLOURS,
            "icons": ICONS,
            "states": [*RunState.values, "idle", "asleep"],
            "keys": ("Ctrl K", "/", "?", "Esc"),
        },
    )

"""A page that shows every component of the pages in every state, for those who write pages."""

import re

from django.http import HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from servers.models import Permission
from servers.models.runs.run import RunState
from servers.views.access import PersonRequest, get

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


@get("design/", Permission.ADMINISTER, name="design")
def show_design(request: PersonRequest) -> HttpResponse:
    return render(
        request,
        "design.html",
        {
            "spaces": SPACES,
            "colours": COLOURS,
            "icons": list_icons(),
            "states": [*RunState.values, "idle", "asleep"],
            "keys": ("Ctrl K", "/", "?", "Esc"),
        },
    )


def list_icons() -> list[str]:
    """By their names in the sprite."""
    return sorted(re.findall(r'<symbol id="icon-([a-z]+)"', render_to_string("_icons.html")))

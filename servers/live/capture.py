"""Tells everybody that what programs ask is kept, on every page, while it is."""

from django.template.loader import render_to_string

from servers.models import Capture, User


def captures() -> list[Capture]:
    return list(Capture.objects.on())


def html(person: User) -> str:
    return render_to_string("_live_capture.html", {"captures": captures(), "user": person})

"""The dashboard: what needs attention, the boxes with their GPUs, the servers."""

from typing import cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from servers.contexts import pages
from servers.contexts.alerts import needs
from servers.contexts.runs import reboots
from servers.models import Box, Key, Permission, Server, User
from servers.state import box_samples
from servers.views.access import allow
from servers.views.people import encryption


@require_GET
@allow(Permission.ACCOUNT)
def dashboard(request: HttpRequest) -> HttpResponse:
    if not cast(User, request.user).may_view:
        return redirect("chat")
    boxes = list(Box.objects.all())
    samples = {box.slug: box_samples.newest(box.slug) for box in boxes}
    servers = list(Server.objects.for_dashboard())
    return render(
        request,
        "dashboard.html",
        {
            "person": request.user,
            "servers": servers,
            "panels": pages.panels(boxes, samples),
            "notices": needs.attention(boxes, samples),
            "ending_keys": list(Key.objects.ending_soon(cast(User, request.user))),
            "reboots": reboots.lines(),
            "is_open_unencrypted": settings.IS_OPEN_UNENCRYPTED,
            "certificate_days": encryption.days_left(),
        },
    )

"""The dashboard: what needs attention, the boxes with their GPUs, the servers."""

from typing import cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from servers import live
from servers.models import Box, Key, Permission, Server, User
from servers.views.access import allow
from servers.views.people import encryption


@require_GET
@allow(Permission.ACCOUNT)
def dashboard(request: HttpRequest) -> HttpResponse:
    if not cast(User, request.user).may_view:
        return redirect("chat")
    boxes = list(Box.objects.all())
    samples = {box.slug: live.sample(box.slug) for box in boxes}
    servers = list(Server.objects.for_dashboard())
    return render(
        request,
        "dashboard.html",
        {
            "person": request.user,
            "servers": servers,
            "panels": live.panels(boxes, samples),
            "notices": live.attention(boxes, samples),
            "ending_keys": list(Key.objects.ending_soon(cast(User, request.user))),
            "reboots": live.restarts_told(),
            "is_open_unencrypted": settings.IS_OPEN_UNENCRYPTED,
            "certificate_days": encryption.days_left(),
        },
    )

"""The page of the one address for programs: how to use it, what is ready, who has asked what."""

from typing import Any, cast

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from servers.contexts.gateway import requests
from servers.gateway.clients import clients
from servers.gateway.routes import list_models, look
from servers.lifecycle.gateway import scale_to_zero
from servers.models import Permission, Request, User
from servers.models.gateway.request import LATEST
from servers.views.access import PersonRequest, allow


@require_GET
@allow(Permission.CHAT)
def gateway(request: PersonRequest) -> HttpResponse:
    text = request.GET.get("q", "")[:200]
    page = Paginator(
        Request.objects.visible_to(request.user).search(text, also_causes=request.user.may_view),
        LATEST,
    ).get_page(request.GET.get("page"))
    return render(
        request,
        "gateway/page.html",
        {
            **use_from(request),
            # It tells of memory, and of who has started what.
            "on_request": scale_to_zero.list_on_demand() if request.user.may_view else [],
            "requests": page,
            "person": request.user,
            "text": text,
            "is_latest": not text and page.number == 1,
            "mark": requests.names_mark(),
        },
    )


def use_from(request: HttpRequest) -> dict[str, Any]:
    """The lines for programs, and what they can be tested with."""
    address = request.build_absolute_uri("/").rstrip("/")
    ready, absent = look()
    offered = list_models(
        [*ready, *(each for each in absent if each.may_start)],
        sees_causes=cast(User, request.user).may_view,
    )
    model = str(offered[0]["id"]) if offered else "the-name-of-a-server"
    return {
        "address": f"{address}/v1",
        "clients": clients(address, model),
        "offered": offered,
        "ready": ready,
        "absent": absent,
        "has_own_authority": settings.OWN_TLS is not None,
    }

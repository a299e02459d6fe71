"""The page of the one address for programs: how to use it, what is ready, who has asked what."""

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from servers.gateway.clients import clients
from servers.gateway.routes import look
from servers.lifecycle import demand
from servers.models import Request, Role
from servers.models.request import LATEST
from servers.views.access import PersonRequest, allow


@require_GET
@allow(Role.OPERATOR)
def gateway(request: PersonRequest) -> HttpResponse:
    text = request.GET.get("q", "")[:200]
    address = request.build_absolute_uri("/").rstrip("/")
    ready, absent = look()
    page = Paginator(Request.objects.shown().matching(text), LATEST).get_page(
        request.GET.get("page")
    )
    return render(
        request,
        "gateway/page.html",
        {
            "address": f"{address}/v1",
            "clients": clients(address, ready[0].model if ready else "the-name-of-a-server"),
            "ready": ready,
            "absent": absent,
            "on_request": demand.listed(),
            "requests": page,
            "text": text,
            "is_latest": not text and page.number == 1,
        },
    )

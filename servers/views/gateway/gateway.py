"""Pages of the gateway: its address and models, who has asked what, legacy ports."""

from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Count, Max
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from servers import events
from servers.contexts.gateway import model_rows, requests
from servers.contexts.gateway.requests import RECENT
from servers.forms.legacy_port import LegacyPortForm
from servers.gateway.clients import clients
from servers.gateway.routes import list_models, look
from servers.lifecycle.gateway import scale_to_zero
from servers.lifecycle.runs import port_holders
from servers.models import AuditEntry, Box, LegacyPort, Permission, Request
from servers.models.gateway.request import LATEST
from servers.views.access import PersonRequest, allow
from servers.views.gateway.usage import build_usage


@require_GET
@allow(Permission.CHAT)
def gateway(request: PersonRequest) -> HttpResponse:
    person = request.user
    if "q" in request.GET or "page" in request.GET:
        return redirect(f"{reverse('requests')}?{request.GET.urlencode()}")
    used = use_from(request)
    return render(
        request,
        "gateway/page.html",
        {
            **used,
            "models": model_rows.list_models(used["ready"], used["absent"], person),
            # It tells of memory, and of who has started what.
            "on_request": scale_to_zero.list_on_demand() if person.may_view else [],
            "requests": Request.objects.visible_to(person)[:RECENT],
            "person": person,
            "usage": build_usage(request) if person.may_operate else None,
            "mark": requests.names_mark(),
        },
    )


@require_GET
@allow(Permission.CHAT)
def list_requests(request: PersonRequest) -> HttpResponse:
    text = request.GET.get("q", "")[:200]
    page = Paginator(
        Request.objects.visible_to(request.user).search(text, also_causes=request.user.may_view),
        LATEST,
    ).get_page(request.GET.get("page"))
    return render(
        request,
        "gateway/requests.html",
        {
            "requests": page,
            "person": request.user,
            "text": text,
            "is_latest": not text and page.number == 1,
        },
    )


def use_from(request: PersonRequest) -> dict[str, Any]:
    """The lines for programs, and what they can be tested with."""
    address = request.build_absolute_uri("/").rstrip("/")
    ready, absent = look()
    offered = list_models(
        [*ready, *(each for each in absent if each.may_start)],
        sees_causes=request.user.may_view,
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


LATELY = timedelta(days=30)
MOST = 20  # addresses a port


@require_http_methods(["GET", "POST"])
@allow(Permission.ADMINISTER)
def list_legacy_ports(request: PersonRequest) -> HttpResponse:
    box = get_object_or_404(Box, slug=settings.BOX)
    form = LegacyPortForm(request.POST or None, box=box)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            made = LegacyPort.objects.create(box=box, made_by=request.user, **form.cleaned_data)
            AuditEntry.note(
                request.user, "open legacy port", made, model=made.model, sources=made.sources
            )
            transaction.on_commit(partial(events.publish_change, "ports"))
        if holder := port_holders.of_all(box).get(made.port):
            messages.warning(
                request,
                f"Port {made.port} is kept, and opens once it is free: {holder} has it now.",
            )
        else:
            messages.success(request, f"Programs may go on asking on port {made.port}.")
        return redirect("legacy_ports")
    ports = LegacyPort.objects.filter(box=box).select_related("made_by")
    return render(
        request,
        "gateway/legacy_ports.html",
        {"form": form, "ports": [{"port": each, "askers": _askers(each)} for each in ports]},
    )


def _askers(port: LegacyPort) -> list[dict[str, Any]]:
    """Who still asks on it without a key: address, how often in these days, and when last."""
    asked = Request.objects.filter(old_port=port, at__gte=timezone.now() - LATELY)
    found = asked.order_by().values("source").annotate(count=Count("pk"), last=Max("at"))
    return [dict(row) for row in found.order_by("-last")[:MOST]]


@require_POST
@allow(Permission.ADMINISTER)
def close_legacy_port(request: PersonRequest, pk: int) -> HttpResponse:
    port = get_object_or_404(LegacyPort, pk=pk)
    with transaction.atomic():
        AuditEntry.note(request.user, "close legacy port", port)
        port.delete()
        transaction.on_commit(partial(events.publish_change, "ports"))
    messages.success(request, f"Port {port.port} is closed.")
    return redirect("legacy_ports")

"""The ports that programs knew before: opened and closed, and who still asks on them."""

from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.db.models import Count, Max
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from servers import events
from servers.forms.legacy_port import LegacyPortForm
from servers.lifecycle.runs import port_holders
from servers.models import AuditEntry, Box, LegacyPort, Permission, Request
from servers.views.access import PersonRequest, allow

LATELY = timedelta(days=30)
MOST = 20  # addresses a port


@require_http_methods(["GET", "POST"])
@allow(Permission.ADMINISTER)
def old_ports(request: PersonRequest) -> HttpResponse:
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
        return redirect("old_ports")
    ports = LegacyPort.objects.filter(box=box).select_related("made_by")
    return render(
        request,
        "gateway/old_ports.html",
        {"form": form, "ports": [{"port": each, "askers": _askers(each)} for each in ports]},
    )


def _askers(port: LegacyPort) -> list[dict[str, Any]]:
    """Who still asks on it without a key: address, how often in these days, and when last."""
    asked = Request.objects.filter(old_port=port, at__gte=timezone.now() - LATELY)
    found = asked.order_by().values("source").annotate(count=Count("pk"), last=Max("at"))
    return [dict(row) for row in found.order_by("-last")[:MOST]]


@require_POST
@allow(Permission.ADMINISTER)
def old_port_close(request: PersonRequest, pk: int) -> HttpResponse:
    port = get_object_or_404(LegacyPort, pk=pk)
    with transaction.atomic():
        AuditEntry.note(request.user, "close legacy port", port)
        port.delete()
        transaction.on_commit(partial(partial(events.publish_change, "ports")))
    messages.success(request, f"Port {port.port} is closed.")
    return redirect("old_ports")

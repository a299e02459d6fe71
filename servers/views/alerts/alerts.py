"""Pages of alerts, open and past, and acknowledging them."""

from typing import cast

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET, require_POST

from servers.contexts.alerts import needs
from servers.judge.alerts.case import KINDS
from servers.lifecycle.alerts import alerts as verbs
from servers.models import Alert, Box, Permission, User
from servers.views.access import allow

PER_PAGE = 50
DONE = 204


@require_GET
@allow(Permission.VIEW)
def alerts(request: HttpRequest) -> HttpResponse:
    person = cast(User, request.user)
    box, kind = request.GET.get("box", ""), request.GET.get("kind", "")
    earlier = Paginator(_earlier(box, kind), PER_PAGE).get_page(request.GET.get("page"))
    context = {
        **needs.page(person, needs.now()),
        "earlier": earlier,
        "boxes": Box.objects.all(),
        "kinds": KINDS.items(),
        "box": box,
        "kind": kind,
    }
    return render(request, "alerts/page.html", context)


def _earlier(box: str, kind: str) -> QuerySet[Alert]:
    found = Alert.objects.exclude(cleared_at=None).with_details()
    if box:
        found = found.filter(box__slug=box)
    if kind:
        found = found.filter(kind=kind)
    return found


@require_POST
@allow(Permission.OPERATE)
def alert_acknowledge(request: HttpRequest, pk: int) -> HttpResponse:
    verbs.acknowledge(get_object_or_404(Alert, pk=pk), by=cast(User, request.user))
    return HttpResponse(status=DONE)

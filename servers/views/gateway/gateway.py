"""Pages of the gateway: its address, keys, usage, legacy ports."""

from collections.abc import AsyncIterator, Sequence
from datetime import date, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Count, Max
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from servers import events
from servers.contexts.gateway import requests
from servers.forms.keys import KeyForm
from servers.forms.legacy_port import LegacyPortForm
from servers.gateway.clients import clients
from servers.gateway.routes import list_models, look
from servers.judge.gateway import usage_chart
from servers.launch import numbers
from servers.lifecycle.gateway import scale_to_zero
from servers.lifecycle.runs import port_holders
from servers.models import AuditEntry, Box, Key, LegacyPort, Permission, Request, Role, Usage
from servers.models.gateway.request import LATEST
from servers.models.gateway.usage import COUNTS, GROUPS, ServedNames
from servers.views import spreadsheet
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


@require_http_methods(["GET", "POST"])
@allow(Permission.ACCOUNT)
def keys(request: PersonRequest) -> HttpResponse:
    person = request.user
    form = KeyForm(request.POST or None, person=person)
    made, token = None, ""
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            made, token = Key.make(
                person,
                form.cleaned_data["name"],
                Role(form.cleaned_data["role"]),
                expires_at=form.cleaned_data["expires_at"],
                only_asks=form.cleaned_data.get("only_asks", False),
                models_allowed=form.cleaned_data["models_allowed"],
                requests_per_minute=form.cleaned_data["requests_per_minute"],
            )
            AuditEntry.note(person, "make key", made, may=made.scope)
        form = KeyForm(person=person)
    found = Key.objects.select_related("person")
    shown = found if person.may_administer else found.filter(person=person)
    return render(
        request,
        "people/keys.html",
        {
            "form": form,
            "made": made,
            "token": token,
            "has_own_authority": settings.OWN_TLS is not None,
            "site": request.build_absolute_uri("/").rstrip("/"),
            **(use_from(request) if made and made.may(Permission.CHAT) else {}),
            "mine": [key for key in shown if key.person_id == person.pk],
            "others": [key for key in shown if key.person_id != person.pk],
        },
    )


@require_POST
@allow(Permission.ACCOUNT)
def key_revoke(request: PersonRequest, pk: int) -> HttpResponse:
    """One's own, and as an admin anybody's."""
    person = request.user
    found = Key.objects.all() if person.may_administer else Key.objects.filter(person=person)
    key = get_object_or_404(found, pk=pk)
    if Key.objects.revoke(key):
        AuditEntry.note(person, "revoke key", key)
        messages.success(request, f"{key.name} is revoked: nothing can be done with it any more.")
    else:
        messages.info(request, f"{key.name} was revoked already.")
    return redirect("keys")


# Days, with today.
SPANS = {1: "Today", 7: "7 days", 30: "30 days", 365: "A year"}
USUALLY = 7
MODEL = "model"
_BY = {MODEL: "Model", "server": "Server", "key": "Key", "person": "Person"}
# What stands in place of a name.
_NAMELESS = {
    MODEL: "no model named",
    "server": "no server found",
    "key": "no key",
    "person": "no person",
}


@require_GET
@allow(Permission.OPERATE)
def usage(request: PersonRequest) -> HttpResponse:
    days, by = _days(request), request.GET.get("by", "")
    by = by if by in GROUPS else MODEL
    today = timezone.localdate()
    since = today - timedelta(days=days - 1)
    used = Usage.objects.from_day(since)
    rows = used.by_model() if by == MODEL else used.added_up(by)
    totals = {name: sum(row[name] for row in rows) for name in COUNTS}
    most = max((row["read"] + row["written"] for row in rows), default=0)
    for row in rows:
        row["share"] = round(100 * (row["read"] + row["written"]) / most, 1) if most else 0
    return render(
        request,
        "gateway/usage.html",
        {
            "rows": rows,
            "totals": totals,
            "chart": usage_chart.chart(used.by_day(), since, today) if days > 1 and rows else None,
            "by": by,
            "by_words": _BY[by],
            "nameless": _NAMELESS[by],
            "days": days,
            "spans": [(n, words, urlencode({"days": n, "by": by})) for n, words in SPANS.items()],
            "groups": [(n, words, urlencode({"days": days, "by": n})) for n, words in _BY.items()],
        },
    )


@require_GET
@allow(Permission.OPERATE)
async def usage_csv(request: PersonRequest) -> StreamingHttpResponse:
    days = _days(request)
    today = timezone.localdate()
    head = ["day", "model", "requested as", "server", "key", "person", *COUNTS]
    rows = _rows(today - timedelta(days=days - 1))
    return spreadsheet.download(f"inferdash-usage-{today:%Y%m%d}-{days}d.csv", head, rows)


async def _rows(since: date) -> AsyncIterator[Sequence[object]]:
    for row in await sync_to_async(_read)(since):
        yield ["" if cell is None else cell for cell in row]


def _read(since: date) -> list[tuple[object, ...]]:
    used = Usage.objects.from_day(since).order_by("day", "pk")
    served = ServedNames(used)
    names = ("key__name", "person__username", *COUNTS)
    return [
        (day, served.name(server, model, day), model, server, *rest)
        for day, model, server, *rest in used.values_list("day", "model", "server", *names)
    ]


def _days(request: PersonRequest) -> int:
    said = numbers.whole(request.GET.get("days", ""))
    return said if said in SPANS else USUALLY


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
        transaction.on_commit(partial(partial(events.publish_change, "ports")))
    messages.success(request, f"Port {port.port} is closed.")
    return redirect("legacy_ports")

"""The gateway's pages: its address, clients, legacy ports, requests and captured calls."""

import json
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
from django.urls import reverse
from django.utils import timezone

from servers import events
from servers.contexts import gateway as gateway_context
from servers.contexts.gateway import RECENT
from servers.forms.gateway import CaptureForm, KeyForm, LegacyPortForm
from servers.gateway.callers import clients
from servers.gateway.routes import list_models, look
from servers.judge.charts import draw_usage
from servers.launch import numbers
from servers.lifecycle.gateway import list_on_demand
from servers.lifecycle.profiles import knowledge
from servers.models import (
    AuditEntry,
    Box,
    Capture,
    CapturedCall,
    Key,
    LegacyPort,
    Permission,
    Request,
    Role,
    Usage,
    User,
)
from servers.models.gateway.request import CALLS_KEPT, COUNTS, GROUPS, LATEST, ServedNames
from servers.views import responses
from servers.views.access import PersonRequest, get, get_or_post, post
from servers.views.responses import render_question, respond_text, send_file

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


@get("gateway/usage/", Permission.OPERATE)
def usage(request: PersonRequest) -> HttpResponse:
    return render(request, "gateway/usage.html", build_usage(request))


def build_usage(request: PersonRequest) -> dict[str, Any]:
    """Of as many days, and added up by what, as the address says."""
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
    return {
        "rows": rows,
        "totals": totals,
        "chart": draw_usage(used.by_day(), since, today) if days > 1 and rows else None,
        "by": by,
        "by_words": _BY[by],
        "nameless": _NAMELESS[by],
        "days": days,
        "spans": [(n, words, urlencode({"days": n, "by": by})) for n, words in SPANS.items()],
        "groups": [(n, words, urlencode({"days": days, "by": n})) for n, words in _BY.items()],
    }


@get("gateway/usage.csv", Permission.OPERATE)
async def usage_csv(request: PersonRequest) -> StreamingHttpResponse:
    days = _days(request)
    today = timezone.localdate()
    head = ["day", "model", "requested as", "server", "key", "person", *COUNTS]
    rows = _list_usage(today - timedelta(days=days - 1))
    return responses.send_table(f"inferdash-usage-{today:%Y%m%d}-{days}d.csv", head, rows)


async def _list_usage(since: date) -> AsyncIterator[Sequence[object]]:
    for row in await sync_to_async(_read_usage)(since):
        yield ["" if cell is None else cell for cell in row]


def _read_usage(since: date) -> list[tuple[object, ...]]:
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


@get("gateway/", Permission.CHAT)
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
            "models": gateway_context.list_models(used["ready"], used["absent"], person),
            # It tells of memory, and of who has started what.
            "on_request": list_on_demand() if person.may_view else [],
            "requests": Request.objects.visible_to(person)[:RECENT],
            "person": person,
            "usage": build_usage(request) if person.may_operate else None,
            "mark": gateway_context.names_mark(),
        },
    )


@get("gateway/requests/", Permission.CHAT, name="requests")
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


@get_or_post("gateway/ports/", Permission.ADMINISTER, name="legacy_ports")
def list_legacy_ports(request: PersonRequest) -> HttpResponse:
    box = get_object_or_404(Box, slug=settings.BOX)
    # The undo of a close has what was open in its address.
    sent = request.POST if "port" in request.POST else request.GET
    form = LegacyPortForm(sent if request.method == "POST" else None, box=box)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            made = LegacyPort.objects.create(box=box, made_by=request.user, **form.cleaned_data)
            AuditEntry.note(
                request.user, "open legacy port", made, model=made.model, sources=made.sources
            )
            transaction.on_commit(partial(events.publish_change, "ports"))
        if holder := knowledge.of_all(box).get(made.port):
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


@post("gateway/ports/<int:pk>/close/", Permission.ADMINISTER, name="legacy_port_close")
def close_legacy_port(request: PersonRequest, pk: int) -> HttpResponse:
    port = get_object_or_404(LegacyPort, pk=pk)
    with transaction.atomic():
        AuditEntry.note(request.user, "close legacy port", port)
        port.delete()
        transaction.on_commit(partial(events.publish_change, "ports"))
    was = {"port": port.port, "model": port.model, "sources": " ".join(port.sources)}
    undo = reverse("legacy_ports", query=was)
    messages.success(request, f"Port {port.port} is closed.", extra_tags=undo)
    return redirect("legacy_ports")


@get_or_post("keys/", Permission.ACCOUNT)
def keys(request: PersonRequest) -> HttpResponse:
    if request.method == "GET":
        return _show_keys(request)
    is_in_place = "HX-Request" in request.headers
    form = KeyForm(request.POST, person=request.user)
    if not form.is_valid():
        if is_in_place:
            return respond_text(
                " ".join(str(each) for found in form.errors.values() for each in found)
            )
        return render_question(request, "New key", "people/_key_form.html", {"form": form})
    made, token = _make_key(request.user, form.cleaned_data)
    shown = {
        "made": made,
        "token": token,
        "has_own_authority": settings.OWN_TLS is not None,
        "site": request.build_absolute_uri("/").rstrip("/"),
    }
    if is_in_place:
        return render(request, "people/_new_key.html", shown)
    used = use_from(request) if made.may(Permission.CHAT) else {}
    return _show_keys(request, {**shown, **used})


def _make_key(person: User, said: dict[str, Any]) -> tuple[Key, str]:
    with transaction.atomic():
        made, token = Key.make(
            person,
            said["name"],
            Role(said["role"]),
            expires_at=said["expires_at"],
            only_asks=said.get("only_asks", False),
            models_allowed=said["models_allowed"],
            requests_per_minute=said["requests_per_minute"],
        )
        AuditEntry.note(person, "make key", made, may=made.scope)
    return made, token


def _show_keys(request: PersonRequest, more: dict[str, Any] | None = None) -> HttpResponse:
    person = request.user
    found = Key.objects.select_related("person")
    shown = list(found if person.may_administer else found.filter(person=person))
    # Those that open nothing any more come last.
    shown.sort(key=lambda key: key.is_over)
    others = {key.person_id for key in shown} - {person.pk}
    context = {"keys": shown, "has_people": bool(others), **(more or {})}
    return render(request, "people/keys.html", context)


@get("keys/new/", Permission.ACCOUNT)
def key_new(request: PersonRequest) -> HttpResponse:
    """The form of a key; `?here`: the page that asks shows the new one itself."""
    form = KeyForm(person=request.user)
    context = {"form": form, "is_in_place": "here" in request.GET}
    return render_question(request, "New key", "people/_key_form.html", context)


@get_or_post("keys/<int:pk>/revoke/", Permission.ACCOUNT)
def key_revoke(request: PersonRequest, pk: int) -> HttpResponse:
    """One's own, and as an admin anybody's."""
    person = request.user
    found = Key.objects.all() if person.may_administer else Key.objects.filter(person=person)
    key = get_object_or_404(found.select_related("person"), pk=pk)
    if request.method == "GET":
        return render_question(
            request, f"Revoke {key.name}?", "people/_key_revoke.html", {"key": key}
        )
    if Key.objects.revoke(key):
        AuditEntry.note(person, "revoke key", key)
        messages.success(request, f"{key.name} is revoked.")
    else:
        messages.info(request, f"{key.name} was revoked already.")
    return redirect("keys")


PER_PAGE = 25
EARLIER = 10
ABOUT = (
    "Programs find x-inferdash-capture in the answer. Secrets of known shapes are masked; the first "
    "256 KiB of a question and of an answer are kept, without pictures and other files. Answers that "
    "are not finished when capture ends are not kept, and the playground’s conversations never are."
)


@get_or_post("gateway/capture/", Permission.ADMINISTER)
def capture(request: PersonRequest) -> HttpResponse:
    form = CaptureForm(request.POST or None, names=_names())
    if request.method == "POST" and form.is_valid():
        _switch_on(request, form.cleaned_data)
        return redirect("capture")
    text = request.GET.get("q", "")[:200]
    kept = CapturedCall.objects.recent()
    page = Paginator(kept.for_table().search(text), PER_PAGE).get_page(request.GET.get("page"))
    captures = Capture.objects.select_related("by", "ended_by")
    return render(
        request,
        "gateway/capture.html",
        {
            "form": form,
            "about_capture": ABOUT,
            "on": list(captures.active()),
            "exchanges": page,
            "kept": kept.count(),
            "days": CALLS_KEPT.days,
            "text": text,
            "earlier": [each for each in captures[: EARLIER + 1] if not each.is_on][:EARLIER],
        },
    )


def _names() -> list[str]:
    """By which programs may ask."""
    ready, absent = look()
    named = [each.names for each in ready] + [each.names for each in absent]
    return sorted({name for names in named for name in names})


def _switch_on(request: PersonRequest, said: dict[str, Any]) -> None:
    with transaction.atomic():
        if (on := Capture.objects.active().first()) is not None:
            messages.error(request, f"{on.by} has capture on already. End that first.")
            return
        now = timezone.now()
        made = Capture.objects.create(
            by=request.user, reason=said["reason"], only=said["only"], began_at=now,
            until=now + said["lasts"],
        )  # fmt: skip
        until = timezone.localtime(made.until).isoformat(timespec="minutes")
        AuditEntry.note(request.user, "switch capture on", made, until=until, reason=made.reason)
        transaction.on_commit(partial(events.publish_change, "capture"))
    messages.success(request, "Capture is on. Every page says so, to everybody.")


@post("gateway/capture/<int:pk>/end/", Permission.ADMINISTER)
def capture_end(request: PersonRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(Capture, pk=pk)
    with transaction.atomic():
        has_ended = Capture.objects.end(found, request.user)
        if has_ended:
            AuditEntry.note(request.user, "end capture", found)
            transaction.on_commit(partial(events.publish_change, "capture"))
    if has_ended:
        messages.success(request, "Capture is off. What was kept stays until it is deleted.")
    else:
        messages.info(request, "It was over already.")
    return redirect("capture")


@get("gateway/captured/<int:pk>/", Permission.ADMINISTER, name="captured")
def show_captured(request: PersonRequest, pk: int) -> HttpResponse:
    exchange = get_object_or_404(CapturedCall.objects.recent().for_table(), pk=pk)
    return render(request, "gateway/captured.html", {"exchange": exchange, "days": CALLS_KEPT.days})


@get("gateway/captured.jsonl", Permission.ADMINISTER)
def captured_download(request: PersonRequest) -> StreamingHttpResponse:
    """What is kept, or of it what matches: JSON, one exchange a line."""
    text = request.GET.get("q", "")[:200]
    AuditEntry.note(request.user, "download captured", text or "all")
    name = f"inferdash-captured-{timezone.localtime():%Y%m%d-%H%M}.jsonl"
    return send_file(name, _lines(text), "application/jsonl; charset=utf-8")


async def _lines(text: str) -> AsyncIterator[str]:
    async for each in CapturedCall.objects.recent().for_table().search(text).aiterator():
        asked = each.request
        said = {
            "at": asked.at.isoformat(),
            "person": asked.person.username if asked.person else None,
            "key": asked.key.name if asked.key else None,
            "from": asked.source,
            "model": asked.model,
            "server": asked.server,
            "path": asked.path,
            "status": asked.status,
            "cancelled": asked.cancelled,
            "error": asked.error,
            "asked": each.asked,
            "asked_bytes_left_out": each.asked_left_out,
            "answered": each.answered,
            "answered_bytes_left_out": each.answered_left_out,
            "reason": each.capture.reason,
        }
        yield json.dumps(said, ensure_ascii=False) + "\n"


@post("gateway/captured/delete/", Permission.ADMINISTER)
def captured_delete(request: PersonRequest) -> HttpResponse:
    with transaction.atomic():
        count, _of_which = CapturedCall.objects.all().delete()
        AuditEntry.note(request.user, "delete captured", f"{count} requests")
    messages.success(request, "Deleted: all prompts and answers that were kept.")
    return redirect("capture")

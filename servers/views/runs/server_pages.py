"""Tabs of a server's page, each at an address of its own: ?run= shows an earlier run."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from servers.contexts.runs import run_comparison, server_page
from servers.launch import numbers
from servers.models import Permission, Run, Server
from servers.models.runs.run import PARTS
from servers.views.access import PersonRequest, allow
from servers.views.runs import starts


@require_GET
@allow(Permission.VIEW)
def server(request: PersonRequest, slug: str) -> HttpResponse:
    return _show(request, slug, "server")


@require_GET
@allow(Permission.VIEW)
def server_log(request: PersonRequest, slug: str) -> HttpResponse:
    return _show(request, slug, "server_log")


@require_GET
@allow(Permission.VIEW)
def server_metrics(request: PersonRequest, slug: str) -> HttpResponse:
    return _show(request, slug, "server_metrics")


@require_GET
@allow(Permission.VIEW)
def server_checkup(request: PersonRequest, slug: str) -> HttpResponse:
    return _show(request, slug, "server_checkup")


@require_GET
@allow(Permission.VIEW)
def server_configuration(request: PersonRequest, slug: str) -> HttpResponse:
    return _show(request, slug, "server_configuration")


@require_GET
@allow(Permission.VIEW)
def server_runs(request: PersonRequest, slug: str) -> HttpResponse:
    """With ?compare= twice, what differs between two of them."""
    chosen = request.GET.getlist("compare")
    server = get_object_or_404(Server, slug=slug)
    compared = run_comparison.compare_runs(server, chosen) if chosen else None
    return _show(request, slug, "server_runs", chosen=chosen, compared=compared)


def _show(request: PersonRequest, slug: str, name: str, **more: Any) -> HttpResponse:
    found = get_object_or_404(Server.objects.with_details(), slug=slug)
    run = _find_run(found, request.GET.get("run", ""))
    tab = server_page.BY_NAME[name]
    shown = server_page.build_context(found, run, request.user, request.get_host(), tab)
    begins = starts.take_planned(request, found)
    return render(
        request,
        "runs/page.html",
        {**shown, **more, "tabs": server_page.TABS, "begins_start": begins},
    )


def _find_run(server: Server, asked: str) -> Run | None:
    if not asked or (server.run_id is not None and asked == str(server.run_id)):
        return server.run
    runs = server.runs.select_related("started_by", "stopped_by", "version", *PARTS)
    return get_object_or_404(runs, pk=numbers.whole(asked))

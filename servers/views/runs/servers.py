"""One server: its run from the click on, its log, its earlier runs, how to talk to it."""

from typing import cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from servers.contexts import pages
from servers.launch import numbers
from servers.lifecycle.external import guard
from servers.models import Permission, PromptRun, Run, Server, User
from servers.views.access import allow

EARLIER = 50  # runs in the table


@require_GET
@allow(Permission.VIEW)
def server(request: HttpRequest, slug: str) -> HttpResponse:
    found = get_object_or_404(Server.objects.with_details(), slug=slug)
    run = _find_run(found, request.GET.get("run", ""))
    runs = found.runs.select_related("started_by", "stopped_by", "version")[:EARLIER]
    return render(
        request,
        "runs/page.html",
        {
            **pages.head(found, run, cast(User, request.user), request.get_host()),
            "runs": runs,
            "rounds": PromptRun.objects.filter(run=run).select_related("prompt_set", "by"),
        },
    )


def _find_run(server: Server, asked: str) -> Run | None:
    if not asked:
        return server.run
    runs = server.runs.select_related("started_by", "stopped_by", "version")
    return get_object_or_404(runs, pk=numbers.whole(asked))


@require_GET
@allow(Permission.OPERATE)
def server_stop_ask(request: HttpRequest, slug: str) -> HttpResponse:
    """What a stop or restart would take from whom, and the buttons that do it."""
    found = get_object_or_404(Server.objects.with_details(), slug=slug)
    guard.check(found)
    return render(
        request,
        "runs/_stop.html",
        {
            "server": found,
            "run": found.run,
            "person": request.user,
            "restarts": request.GET.get("then") == "restart",
        },
    )

"""Pages of canaries: a server's answers checked, watched, accepted."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from servers.contexts.canary import describe_canary
from servers.lifecycle.canary import commands
from servers.lifecycle.canary.commands import CanaryRequestError
from servers.models import Canary, Permission, Server
from servers.views.access import PersonRequest, get, post
from servers.views.responses import respond_done, respond_text


@post("servers/<slug:slug>/answers/check/", Permission.OPERATE)
def server_answers_check(request: PersonRequest, slug: str) -> HttpResponse:
    server = get_object_or_404(Server.objects.with_details(), slug=slug)
    try:
        made = commands.ask(
            server,
            request.POST.get("set", "")[:40],
            by=request.user,
            gives_way="insists" not in request.POST,
        )
    except CanaryRequestError as error:
        messages.error(request, str(error))
        return redirect("server_checkup", slug)
    return redirect("canary", made.pk)


@get("answers/<int:pk>/", Permission.VIEW)
def canary(request: PersonRequest, pk: int) -> HttpResponse:
    return render(request, "canary/canary.html", describe_canary(_find(pk)))


@post("answers/<int:pk>/stop/", Permission.OPERATE)
def canary_stop(request: PersonRequest, pk: int) -> HttpResponse:
    if not commands.stop(_find(pk), by=request.user):
        return respond_text("It has ended already.")
    return respond_done()


@post("answers/<int:pk>/accept/", Permission.EDIT)
def canary_accept(request: PersonRequest, pk: int) -> HttpResponse:
    found = _find(pk)
    if commands.accept(found, by=request.user):
        messages.success(request, "Accepted: the next canaries are compared with these answers.")
    else:
        messages.error(request, "There is nothing to accept: look at the page again.")
    return redirect("canary", found.pk)


def _find(pk: int) -> Canary:
    found = Canary.objects.with_details().select_related(
        "compared_with", "run__version", "run__plan"
    )
    return get_object_or_404(found.defer("items", "compared_with__items"), pk=pk)

"""Claims of GPUs and servers: the dialog, and its buttons."""

from typing import cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_http_methods, require_POST

from servers.forms.people import ClaimForm
from servers.lifecycle.people import claims
from servers.models import Box, Claim, Permission, Server, User
from servers.views.access import allow

DONE, CONFLICT = 204, 409


@require_http_methods(["GET", "POST"])
@allow(Permission.OPERATE)
def box_claim(request: HttpRequest, slug: str) -> HttpResponse:
    """The dialog that claims GPUs of a box."""
    return _claim(request, get_object_or_404(Box, slug=slug), None)


@require_http_methods(["GET", "POST"])
@allow(Permission.OPERATE)
def server_claim(request: HttpRequest, slug: str) -> HttpResponse:
    """The dialog that claims a server."""
    server = get_object_or_404(Server.objects.select_related("box"), slug=slug, removed_at=None)
    return _claim(request, server.box, server)


def _claim(request: HttpRequest, box: Box, server: Server | None) -> HttpResponse:
    person = cast(User, request.user)
    form = ClaimForm(request.POST or None, box=None if server else box)
    if request.method == "POST" and form.is_valid():
        said = form.cleaned_data
        try:
            claims.claim(
                box,
                by=person,
                until=said["until"],
                note=said["note"],
                gpus=said.get("gpus", ()),
                server=server,
            )
        except claims.ClaimError as error:
            form.add_error(None, str(error))
        else:
            return HttpResponse(status=DONE)
    active = box.claims.active().filter(server=server)
    context = {"box": box, "server": server, "form": form, "claims": active, "person": person}
    answer = render(request, "people/claims/dialog.html", context)
    if form.errors:
        # A dialog is shown again with what is wrong in it.
        answer["HX-Retarget"] = "#dialog"
        answer["HX-Reswap"] = "innerHTML"
    return answer


@require_POST
@allow(Permission.OPERATE)
def claim_end(request: HttpRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(Claim.objects.select_related("by", "server", "box"), pk=pk)
    try:
        claims.release(found, by=cast(User, request.user))
    except claims.ClaimError as error:
        return HttpResponse(str(error), status=CONFLICT, content_type="text/plain")
    return HttpResponse(status=DONE)

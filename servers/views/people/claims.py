"""Claims of GPUs and servers: the dialog, and its buttons."""

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render

from servers.forms.people import ClaimForm
from servers.lifecycle.people import claims
from servers.models import Box, Claim, Permission, Server
from servers.views.access import PersonRequest, get_or_post, post
from servers.views.responses import ask_in_dialog, respond_done, respond_text


@get_or_post("boxes/<slug:slug>/claims/", Permission.OPERATE)
def box_claim(request: PersonRequest, slug: str) -> HttpResponse:
    """The dialog that claims GPUs of a box."""
    return _claim(request, get_object_or_404(Box, slug=slug), None)


@get_or_post("servers/<slug:slug>/claims/", Permission.OPERATE)
def server_claim(request: PersonRequest, slug: str) -> HttpResponse:
    """The dialog that claims a server."""
    server = get_object_or_404(Server.objects.select_related("box"), slug=slug, removed_at=None)
    return _claim(request, server.box, server)


def _claim(request: PersonRequest, box: Box, server: Server | None) -> HttpResponse:
    person = request.user
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
            return respond_done()
    active = box.claims.active().filter(server=server)
    context = {"box": box, "server": server, "form": form, "claims": active, "person": person}
    # A dialog is shown again with what is wrong in it.
    show = ask_in_dialog if form.errors else render
    return show(request, "people/claims/dialog.html", context)


@post("claims/<int:pk>/end/", Permission.OPERATE)
def claim_end(request: PersonRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(Claim.objects.select_related("by", "server", "box"), pk=pk)
    try:
        claims.release(found, by=request.user)
    except claims.ClaimError as error:
        return respond_text(str(error))
    return respond_done()

"""Claims of GPUs and servers."""

from datetime import timedelta

from django.http import HttpRequest
from django.utils import timezone
from ninja import Schema
from pydantic import Field

from servers.lifecycle.people import claims
from servers.models import Box, Claim, Permission, Server
from servers.views.api.boxes import find_box
from servers.views.api.operations import ApiError, KeyRouter, find_named, person
from servers.views.api.schemas import ClaimOut

router = KeyRouter("claims")
CONFLICT = 409


class ClaimIn(Schema):
    server: str = Field(default="", description="Its name; or `gpus` of a box.")
    box: str = Field(default="", description="Of the GPUs; may be left out where there is one box.")
    gpus: list[int] = []
    hours: float = Field(gt=0, le=336)
    note: str = Field(default="", max_length=200, description="What it is for.")


@router.serve("GET", "", Permission.VIEW, list[ClaimOut], name="listed")
def list_claims(request: HttpRequest) -> list[ClaimOut]:
    """Those that are in force, the first to end first."""
    return [ClaimOut.from_claim(each) for each in Claim.objects.active()]


@router.serve("POST", "", Permission.OPERATE, ClaimOut, 403, 404, 409, 422)
def claim(request: HttpRequest, wanted: ClaimIn) -> ClaimOut:
    """Claim GPUs or a server until a time. Claiming the same again sets its time and note anew."""
    server = None
    if wanted.server:
        there = Server.objects.select_related("box").filter(removed_at=None)
        server = find_named(there, "server", wanted.server)
        box = server.box
    elif wanted.box:
        box = find_named(Box.objects.all(), "box", wanted.box)
    else:
        box = find_box("")
    try:
        made = claims.claim(
            box,
            by=person(request),
            until=timezone.now() + timedelta(hours=wanted.hours),
            note=wanted.note,
            gpus=wanted.gpus,
            server=server,
        )
    except claims.ClaimError as error:
        raise ApiError(CONFLICT, "not_claimed", str(error)) from error
    return ClaimOut.from_claim(made)


@router.serve("DELETE", "/{pk}", Permission.OPERATE, ClaimOut, 403, 404, 409)
def release(request: HttpRequest, pk: int) -> ClaimOut:
    """End one's own; an admin ends anybody's."""
    there = Claim.objects.active()
    found = find_named(there, "claim", str(pk), field="pk")
    try:
        claims.release(found, by=person(request))
    except claims.ClaimError as error:
        raise ApiError(CONFLICT, "not_yours", str(error)) from error
    return ClaimOut.from_claim(found)

"""Boxes: their GPUs, who holds which memory, the models on their disks, and claims."""

from datetime import timedelta

from django.http import HttpRequest
from django.utils import timezone
from ninja import Schema, Status
from pydantic import Field

from servers import events
from servers.contexts import links, pages
from servers.lifecycle.jobs import actions
from servers.lifecycle.people import claims
from servers.lifecycle.weights import deletion
from servers.models import Box, Claim, Permission, Server
from servers.views.api.operations import ApiError, KeyRouter, find_named, person
from servers.views.api.schemas import BoxOut, ClaimOut, StoredOut

router = KeyRouter("boxes")
ACCEPTED, CONFLICT, UNPROCESSABLE = 202, 409, 422


class DeletedOut(Schema):
    says: str


@router.serve("GET", "", Permission.VIEW, list[BoxOut])
def boxes(request: HttpRequest) -> list[BoxOut]:
    linked = links.find_linked()
    return [BoxOut.from_panel(pages.panel(box), linked[box.slug]) for box in Box.objects.all()]


@router.serve("GET", "/{slug}", Permission.VIEW, BoxOut, 404)
def box(request: HttpRequest, slug: str) -> BoxOut:
    found = find_named(Box.objects.all(), "box", slug)
    return BoxOut.from_panel(pages.panel(found), links.find_linked()[slug])


@router.serve("GET", "/{slug}/models", Permission.VIEW, list[StoredOut], 404)
def models(request: HttpRequest, slug: str) -> list[StoredOut]:
    """The models on its disks, as its watcher has last seen them."""
    found = find_named(Box.objects.all(), "box", slug)
    return [StoredOut.from_stored(each) for each in found.checkpoints.defer("texts")]


@router.serve("DELETE", "/{slug}/models", Permission.EDIT, {202: DeletedOut}, 404, 409)
def delete_model(request: HttpRequest, slug: str, path: str) -> Status[DeletedOut]:
    """Have the box delete the model at this path; what came of it stands on its page."""
    box = find_named(Box.objects.all(), "box", slug)
    stored = find_named(box.checkpoints.select_related("box"), "model", path, field="path")
    if refused := deletion.refusal(stored):
        raise ApiError(CONFLICT, "in_use", refused)
    is_new = actions.ask_to_delete(stored, by=person(request))
    events.publish_change("models")
    said = f"{stored} is {'to be deleted' if is_new else 'being deleted already'}."
    return Status(ACCEPTED, DeletedOut(says=said))


def find_box(slug: str) -> Box:
    """The one that a body names; without a name the only one. Raises ApiError."""
    found = list(Box.objects.filter(slug=slug) if slug else Box.objects.all()[:2])
    if len(found) == 1:
        return found[0]
    names = ", ".join(Box.objects.values_list("slug", flat=True)) or "none yet"
    said = f"There is no box {slug}" if slug else "It is not said which box it is for"
    raise ApiError(UNPROCESSABLE, "no_box", f"{said}.", f"Name one in “box”: {names}.")


claim_router = KeyRouter("claims")


class ClaimIn(Schema):
    server: str = Field(default="", description="Its name; or `gpus` of a box.")
    box: str = Field(default="", description="Of the GPUs; may be left out where there is one box.")
    gpus: list[int] = []
    hours: float = Field(gt=0, le=336)
    note: str = Field(default="", max_length=200, description="What it is for.")


@claim_router.serve("GET", "", Permission.VIEW, list[ClaimOut], name="listed")
def list_claims(request: HttpRequest) -> list[ClaimOut]:
    """Those that are in force, the first to end first."""
    return [ClaimOut.from_claim(each) for each in Claim.objects.active()]


@claim_router.serve("POST", "", Permission.OPERATE, ClaimOut, 403, 404, 409, 422)
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


@claim_router.serve("DELETE", "/{pk}", Permission.OPERATE, ClaimOut, 403, 404, 409)
def release(request: HttpRequest, pk: int) -> ClaimOut:
    """End one's own; an admin ends anybody's."""
    there = Claim.objects.active()
    found = find_named(there, "claim", str(pk), field="pk")
    try:
        claims.release(found, by=person(request))
    except claims.ClaimError as error:
        raise ApiError(CONFLICT, "not_yours", str(error)) from error
    return ClaimOut.from_claim(found)

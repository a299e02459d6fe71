"""Further boxes: invitations, those that ask to join, and decisions about them."""

from collections.abc import Callable
from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Schema
from pydantic import Field

from servers.contexts import links
from servers.lifecycle.links import decisions
from servers.lifecycle.links.invitations import LinkError, invite_box
from servers.models import BoxLink, Permission
from servers.views.api.operations import ApiError, KeyRouter, find_named, person
from servers.views.api.schemas import RowOut

router = KeyRouter("links")
CONFLICT = 409


class LinkOut(RowOut):
    id: int
    name: str
    state: str  # asks, refused, over, joined, revoked
    words: str  # six, which the box's terminal shows too
    hostname: str
    address: str
    version: str
    asked_at: datetime
    joined_at: datetime | None
    revoked_at: datetime | None
    secrets: list[str]  # that it can read, or has read and that have not been changed since

    @classmethod
    def from_link(cls, link: BoxLink) -> "LinkOut":
        return cls.from_same(
            link,
            address=link.came_from,
            state=links.name_state(link),
            secrets=decisions.list_seen_secrets(link),
        )


class InvitationOut(Schema):
    token: str  # good once; told now and never again
    command: str  # to be run on the other box
    expires_at: datetime


class LetInIn(Schema):
    name: str = Field(
        default="", max_length=63, description="What to call it; left out: as it asks."
    )


@router.serve("GET", "", Permission.ADMINISTER, list[LinkOut], name="listed")
def list_links(request: HttpRequest) -> list[LinkOut]:
    """Boxes that have asked to join, the newest first."""
    return [LinkOut.from_link(each) for each in BoxLink.objects.select_related("invitation")]


@router.serve("POST", "/invitations", Permission.ADMINISTER, InvitationOut, 409)
def invite(request: HttpRequest) -> InvitationOut:
    """Make a token with which one box may ask to join within half an hour."""
    try:
        invitation, token = invite_box(person(request), now=timezone.now())
    except LinkError as error:
        raise ApiError(CONFLICT, "no_hub", str(error)) from error
    written = token.write()
    return InvitationOut(
        token=written, command=f"make join TOKEN={written}", expires_at=invitation.expires_at
    )


@router.serve("POST", "/{pk}/let-in", Permission.ADMINISTER, LinkOut, 404, 409)
def let_in(request: HttpRequest, pk: int, wanted: LetInIn) -> LinkOut:
    """Let a box in, after its six words were compared."""
    return _decide(pk, lambda link: decisions.let_in(link, person(request), name=wanted.name))


@router.serve("POST", "/{pk}/refuse", Permission.ADMINISTER, LinkOut, 404, 409)
def refuse(request: HttpRequest, pk: int) -> LinkOut:
    return _decide(pk, lambda link: decisions.refuse(link, person(request)))


@router.serve("POST", "/{pk}/revoke", Permission.ADMINISTER, LinkOut, 404, 409)
def revoke(request: HttpRequest, pk: int) -> LinkOut:
    """Cut a box off within seconds; its engines go on. `secrets` are those to change."""
    return _decide(pk, lambda link: decisions.revoke(link, person(request)))


def _decide(pk: int, decide: Callable[[BoxLink], BoxLink]) -> LinkOut:
    found = find_named(BoxLink.objects.all(), "box that has asked", str(pk), field="pk")
    try:
        return LinkOut.from_link(decide(found))
    except LinkError as error:
        raise ApiError(CONFLICT, "not_decided", str(error)) from error

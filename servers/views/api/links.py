"""Further boxes: invitations, those that ask to join, and decisions about them."""

from collections.abc import Callable
from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Schema
from pydantic import Field

from servers.contexts import links
from servers.lifecycle.links import decisions, upgrades
from servers.lifecycle.links.invitations import LinkError, invite_box
from servers.models import BoxLink, BoxUpgrade, Permission
from servers.views.api.operations import ApiError, KeyRouter, find_named, person
from servers.views.api.schemas import RowOut

router = KeyRouter("links")
CONFLICT = 409


class LinkOut(RowOut):
    id: int
    name: str
    state: str  # asks, refused, over, joined, held, revoked
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


class BoxUpgradeOut(RowOut):
    id: int
    version: str  # the hub's, to which the box comes
    step: str  # asked, described, packed, fetching, installing, switching; done, failed, cancelled
    percent: int | None  # of the bundle, that is fetched
    said: str  # why it failed
    is_open: bool
    asked_at: datetime
    moved_at: datetime

    @classmethod
    def from_upgrade(cls, upgrade: BoxUpgrade) -> "BoxUpgradeOut":
        return cls.from_same(upgrade, is_open=bool(upgrade.is_open))


class InvitationOut(Schema):
    token: str  # good once; told now and never again
    command: str  # to be run on the other box
    expires_at: datetime


class LetInIn(Schema):
    name: str = Field(
        default="", max_length=63, description="What to call it; left out: as it asks."
    )
    replaces: bool = Field(
        default=False, description="It is the box of that name with a new key: the old one ends."
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
    return _decide(
        pk,
        lambda link: decisions.let_in(
            link, person(request), name=wanted.name, replaces=wanted.replaces
        ),
    )


@router.serve("POST", "/{pk}/refuse", Permission.ADMINISTER, LinkOut, 404, 409)
def refuse(request: HttpRequest, pk: int) -> LinkOut:
    return _decide(pk, lambda link: decisions.refuse(link, person(request)))


@router.serve("POST", "/{pk}/revoke", Permission.ADMINISTER, LinkOut, 404, 409)
def revoke(request: HttpRequest, pk: int) -> LinkOut:
    """Cut a box off within seconds; its engines go on. `secrets` are those to change."""
    return _decide(pk, lambda link: decisions.revoke(link, person(request)))


@router.serve("POST", "/{pk}/release", Permission.ADMINISTER, LinkOut, 404, 409)
def release(request: HttpRequest, pk: int) -> LinkOut:
    """Let a box in again that was held as two machines had its key, once one of them is gone."""
    return _decide(pk, lambda link: decisions.release(link, person(request)))


@router.serve("POST", "/{pk}/bring-up", Permission.ADMINISTER, BoxUpgradeOut, 404, 409)
def bring_up(request: HttpRequest, pk: int) -> BoxUpgradeOut:
    """Have a box fetch the hub's release and change to it; the old one comes back if that fails."""
    link = find_named(BoxLink.objects.all(), "box that has asked", str(pk), field="pk")
    try:
        return BoxUpgradeOut.from_upgrade(upgrades.bring_up(link, person(request)))
    except LinkError as error:
        raise ApiError(CONFLICT, "not_brought_up", str(error)) from error


@router.serve("GET", "/{pk}/bring-up", Permission.ADMINISTER, BoxUpgradeOut, 404)
def show_upgrade(request: HttpRequest, pk: int) -> BoxUpgradeOut:
    """How far the last one is."""
    link = find_named(BoxLink.objects.all(), "box that has asked", str(pk), field="pk")
    found = BoxUpgrade.objects.filter(box=link.box_id).first()
    if found is None:
        raise ApiError(404, "not_found", "This box was never brought up.")
    return BoxUpgradeOut.from_upgrade(found)


def _decide(pk: int, decide: Callable[[BoxLink], BoxLink]) -> LinkOut:
    found = find_named(BoxLink.objects.all(), "box that has asked", str(pk), field="pk")
    try:
        return LinkOut.from_link(decide(found))
    except LinkError as error:
        raise ApiError(CONFLICT, "not_decided", str(error)) from error

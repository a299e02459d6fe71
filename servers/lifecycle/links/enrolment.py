"""The enrolment of a box: what it says of itself, the wait for an admin, and what it is given."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from servers import events
from servers.host.links.files import WireFiles
from servers.host.links.keys import check_public_line
from servers.host.links.sshd import read_host_line
from servers.judge.links.words import make_words
from servers.lifecycle.links.decisions import NAME
from servers.models import BoxInvitation, BoxLink

# Beyond this, times of logs and tokens would be nonsense, and TLS and package tools fail as well.
MOST_CLOCK = 300.0  # seconds
_LONGEST = 8192  # characters of what a box says


class EnrolmentError(Exception):
    """Why a box is not taken in; the text is for who runs the command on it."""


@dataclass(frozen=True, kw_only=True)
class BoxIntroduction:
    """What a box says of itself."""

    name: str
    public_key: str
    seal_key: str
    hostname: str
    machine_id: str
    version: str
    schema: str
    time: float  # unix seconds

    @classmethod
    def parse(cls, text: str) -> "BoxIntroduction":
        """Raises EnrolmentError."""
        try:
            said = json.loads(text[:_LONGEST])
            if not isinstance(said, Mapping):
                raise TypeError("no object")
            name = str(said["name"])
            if not NAME.fullmatch(name):
                raise EnrolmentError(
                    f"{name[:80]!r} cannot be the name of a box: use small letters, digits and dashes. "
                    "Say make join NAME=… TOKEN=…."
                )
            seal_key = str(said["seal_key"])
            if len(seal_key) != 44:
                raise ValueError("seal key")
            return cls(
                name=name,
                public_key=check_public_line(str(said["public_key"])),
                seal_key=seal_key,
                hostname=str(said.get("hostname", ""))[:255],
                machine_id=str(said.get("machine_id", ""))[:64],
                version=str(said.get("version", ""))[:40],
                schema=str(said.get("schema", ""))[:120],
                time=float(said["time"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise EnrolmentError(
                f"The hub does not understand what this box says of itself ({error}). "
                "Are both of the same version of inferdash?"
            ) from error


def ask(ident: str, said: BoxIntroduction, *, came_from: str) -> BoxLink:
    """Keep that a box asks to join; the same key may ask again. Raises EnrolmentError."""
    ahead = said.time - timezone.now().timestamp()
    if abs(ahead) > MOST_CLOCK:
        way = "ahead of" if ahead > 0 else "behind"
        raise EnrolmentError(
            f"This machine's clock is {abs(ahead) / 60:.0f} minutes {way} the hub's. Set it right "
            "(sudo timedatectl set-ntp true), then join again."
        )
    with transaction.atomic():
        invitation = BoxInvitation.objects.select_open().filter(ident=ident).first()
        if invitation is None:
            raise EnrolmentError(
                "This token is over. Ask for a new one on the hub: Settings, Boxes."
            )
        link = BoxLink.objects.filter(invitation=invitation).first()
        if link is not None and link.public_key != said.public_key:
            raise EnrolmentError(
                "Another box has used this token. Ask for a new one on the hub: Settings, Boxes."
            )
        if link is None:
            link = BoxLink.objects.filter(public_key=said.public_key).first() or BoxLink()
        if link.is_joined:
            raise EnrolmentError(
                f"This box has joined already, as {link.name}. Say make up here; to join anew, an "
                "admin revokes it first on the hub: Settings, Boxes."
            )
        link.box = None
        link.joined_at = link.refused_at = link.revoked_at = None
        link.invitation = invitation
        link.name, link.public_key, link.seal_key = said.name, said.public_key, said.seal_key
        link.hostname, link.machine_id = said.hostname, said.machine_id
        link.version, link.schema = said.version, said.schema
        link.clock_offset, link.came_from = ahead, came_from[:64]
        link.asked_at = timezone.now()
        host = read_host_line(WireFiles(settings.DATA))
        link.words = make_words(host.encode(), said.public_key.encode(), ident.encode())
        try:
            link.save()
        except IntegrityError as error:
            raise EnrolmentError("Another box with the same key asks to join right now.") from error
    events.publish_change("links")
    return link


def read_answer(link: BoxLink) -> dict[str, Any] | None:
    """What the box is told now; None while it has to wait. Raises EnrolmentError, SecretError."""
    link = BoxLink.objects.select_related("box", "invitation").get(pk=link.pk)
    if link.is_joined:
        return _make_credentials(link)
    if link.refused_at is not None or link.revoked_at is not None:
        raise EnrolmentError("An admin of the hub has refused this box.")
    invitation = link.invitation
    if invitation is None or invitation.withdrawn_at or invitation.expires_at <= timezone.now():
        raise EnrolmentError("Nobody has let this box in within 30 minutes. Ask for a new token.")
    return None


def _make_credentials(link: BoxLink) -> dict[str, Any]:
    assert link.box is not None
    return {
        "slug": link.box.slug,
        "account": settings.HUB_ACCOUNT,
        "role": link.role,
        "password": link.reveal_password(),
        "relay_secret": link.reveal_relay_secret(),
        "box_port": link.port,
        "database_port": settings.HUB_DATABASE_PORT,
        "redis_port": settings.HUB_REDIS_PORT,
        "bulk_port": settings.HUB_BULK_PORT,
        "database": settings.DATABASES["default"]["NAME"],
        "url": settings.PUBLIC_URL,
        "version": settings.VERSION,
    }

"""Invitations of boxes: a token that is good once, for half an hour."""

import ipaddress
import secrets
from datetime import datetime
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from servers import events
from servers.host.links import keys
from servers.host.links.address import find_own_address
from servers.host.links.files import WireFiles
from servers.host.links.sshd import read_host_line
from servers.judge.links.token import JoinToken
from servers.models import AuditEntry, BoxInvitation, User
from servers.models.links import INVITED_FOR


class LinkError(Exception):
    """A box cannot be invited, let in, refused or revoked; the text says why."""


def invite_box(
    by: User | None, *, now: datetime, address: str = ""
) -> tuple[BoxInvitation, JoinToken]:
    """The token is shown now and kept nowhere. Raises LinkError.

    `address`: of this hub, as the other box will call it; "" for the one that is known.
    """
    if settings.WIRE != "hub":
        raise LinkError(
            "This inferdash runs on one box and takes no others yet. Run `make up BOXES=1` on it "
            "first: Settings, Boxes says what that changes."
        )
    token = JoinToken(
        # The account is that of the hub's owner, which differs from machine to machine.
        address=f"{settings.HUB_OWNER}@{address or _find_address()}",
        port=settings.HUB_PORT,
        host_key=hash_host_key(),
        ident=secrets.token_hex(6),
        seed=secrets.token_bytes(32),
    )
    with transaction.atomic():
        made = BoxInvitation.objects.create(
            ident=token.ident,
            public_key=keys.write_public_line(keys.make_key(token.seed)),
            created_at=now,
            created_by=by,
            expires_at=now + INVITED_FOR,
        )
        AuditEntry.note(by, "invite box", made)
        transaction.on_commit(_tell)
    return made, token


def withdraw(invitation: BoxInvitation, by: User | None) -> bool:
    """Whether this call did: nobody can use it from now on."""
    with transaction.atomic():
        mine = BoxInvitation.objects.select_open().filter(pk=invitation.pk)
        is_done = mine.update(withdrawn_at=timezone.now()) == 1
        if is_done:
            AuditEntry.note(by, "withdraw invitation", invitation)
            transaction.on_commit(_tell)
    return is_done


def hash_host_key() -> bytes:
    """SHA-256 of the key of this hub's sshd, as ssh-keygen -l tells it. Raises LinkError."""
    try:
        return keys.hash_key(read_host_line(WireFiles(settings.DATA)))
    except keys.KeyFileError as error:
        raise LinkError(str(error)) from error


def _find_address() -> str:
    """The name under which people open this inferdash, unless that means every machine itself."""
    host = urlsplit(settings.PUBLIC_URL).hostname or ""
    own = find_own_address() if _is_loopback(host) else host
    if own is None:
        raise LinkError(
            "This machine has no address that another box could call. Connect it to the network "
            "that it shares with the box, or name its address in INFERDASH_ALLOWED_HOSTS."
        )
    return own


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in ("", "localhost")


def _tell() -> None:
    events.wake_keeper()
    events.publish_change("links")

"""Links of further boxes as they are once a box has asked: for tests, and for the demo's pictures."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from servers.judge.links.words import make_words
from servers.lifecycle.links import decisions
from servers.models import Box, BoxInvitation, BoxLink, User
from servers.models.links import INVITED_FOR


def ask(name: str = "laurel", **values: Any) -> BoxLink:
    """As enrol keeps it."""
    now = timezone.now()
    ident = f"{name}-{BoxInvitation.objects.count()}"[-16:]
    invitation = BoxInvitation.objects.create(
        ident=ident, public_key="ssh-ed25519 once", expires_at=now + INVITED_FOR
    )
    usual = {
        "hostname": f"{name}.lan", "came_from": "10.0.0.17", "version": "1.2.3",
        "public_key": f"ssh-ed25519 {ident}", "seal_key": "seal",
        "words": make_words(ident.encode()), "clock_offset": 0.02,
    }  # fmt: skip
    return BoxLink.objects.create(name=name, invitation=invitation, **usual | values)


def join(name: str = "laurel", by: User | None = None, **values: Any) -> BoxLink:
    """A box that was let in and has been heard of."""
    link = decisions.let_in(ask(name, **values), by)
    if link.box is None:
        raise AssertionError("A joined box has a row.")
    link.box.seen_at = timezone.now()
    link.box.save()
    return link


def attach(box: Box, **values: Any) -> BoxLink:
    """To a box that is there."""
    link = ask(box.slug, **values)
    link.box, link.port, link.joined_at = box, 8500 + box.pk, timezone.now()
    link.keep_credentials(password="p", relay_secret="r")
    link.save()
    return link


def fall_silent(link: BoxLink, since: timedelta) -> None:
    if link.box is not None:
        link.box.seen_at = timezone.now() - since
        link.box.save()

"""Upgrades of further boxes: an admin has one brought to the hub's version, one at a time."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from servers import events
from servers.lifecycle.links.invitations import LinkError
from servers.models import AuditEntry, BoxLink, BoxUpgrade, User
from servers.models.links import UpgradeStep

# A box that has gone away meanwhile keeps no other from being brought up.
FORGOTTEN_AFTER = timedelta(minutes=30)
# From here on the box restarts itself, and comes back with one release or the other.
UNSTOPPABLE = (UpgradeStep.SWITCHING,)


def bring_up(link: BoxLink, by: User | None) -> BoxUpgrade:
    """Ask the box to fetch the hub's release and to change to it. Raises LinkError."""
    if not link.is_joined or link.box is None:
        raise LinkError(f"{link} has not joined, or was revoked.")
    if not link.is_told:
        raise LinkError(f"{link} is away. It can be brought up once it is back.")
    if link.version == settings.VERSION:
        raise LinkError(f"{link} has the hub's version already: {settings.VERSION}.")
    with transaction.atomic():
        _forget_old()
        if (other := BoxUpgrade.objects.filter(is_open=True).first()) is not None:
            raise LinkError(f"{other.box} is being brought up now. One box at a time.")
        try:
            with transaction.atomic():
                made = BoxUpgrade.objects.create(
                    box=link.box, version=settings.VERSION, asked_by=by
                )
        except IntegrityError as error:
            raise LinkError("Somebody else brings a box up since this moment.") from error
        AuditEntry.note(by, "bring up box", link, version=settings.VERSION, had=link.version)
        transaction.on_commit(_tell)
    return made


def cancel(upgrade: BoxUpgrade, by: User | None) -> None:
    """Raises LinkError where it is over, or too late."""
    with transaction.atomic():
        mine = BoxUpgrade.objects.filter(pk=upgrade.pk, is_open=True)
        changed = mine.exclude(step__in=UNSTOPPABLE, moved_at__gt=_find_oldest()).update(
            step=UpgradeStep.CANCELLED, is_open=None, moved_at=timezone.now()
        )
        if not changed:
            raise LinkError("It is over already, or the box restarts right now.")
        AuditEntry.note(by, "cancel bringing up box", upgrade.box)
        transaction.on_commit(_tell)


def _forget_old() -> None:
    BoxUpgrade.objects.filter(is_open=True, moved_at__lte=_find_oldest()).update(
        step=UpgradeStep.FAILED, is_open=None, said="Nothing was heard of it for half an hour."
    )


def _find_oldest() -> datetime:
    return timezone.now() - FORGOTTEN_AFTER


def _tell() -> None:
    events.wake_keeper()
    events.publish_change("links")

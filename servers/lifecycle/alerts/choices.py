"""Saving of what a person wants to be notified of."""

from collections.abc import Sequence

from django.db import transaction

from servers.models import AuditEntry, NotificationChannel, NotificationChoices, User
from servers.models.alerts.alert import ChannelKind


def choose(person: User, *, browser: Sequence[str], mail: Sequence[str], address: str) -> None:
    """Keep the choice. Mail goes through a channel of the person's own, as to every channel."""
    with transaction.atomic():
        NotificationChoices.objects.update_or_create(
            person=person,
            defaults={"browser": list(browser), "mail": list(mail), "address": address},
        )
        channel = NotificationChannel.objects.filter(owner=person).first()
        if mail and address:
            channel = channel or NotificationChannel(
                owner=person,
                created_by=person,
                kind=ChannelKind.EMAIL,
                name=f"mail of person {person.pk}",
            )
            channel.keep(address, "", "")
            channel.error = ""
            channel.save()
        elif channel is not None:
            channel.delete()
        AuditEntry.note(person, "change notifications", person)

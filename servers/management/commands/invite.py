"""Print a one-time link that lets a person in, or lets one choose a new password."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import transaction
from django.urls import reverse

from servers.management.database import DatabaseCommand
from servers.models import AuditEntry, Invite, Role, User


class Command(DatabaseCommand):
    help = __doc__ or ""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--base-url",
            default=f"{'https' if settings.SERVES_TLS else 'http'}://127.0.0.1:{settings.PORT}",
            help="what people type to reach inferdash: http://rtx8:8470",
        )
        parser.add_argument("--role", default="viewer", choices=[role.label for role in Role])
        parser.add_argument(
            "--first-admin",
            action="store_true",
            help="an admin's link, if there is no admin yet; else print nothing",
        )
        parser.add_argument(
            "--person",
            default="",
            help="a link by which who has this name chooses a new password; it also opens a name "
            "that too many wrong passwords have locked",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        is_first = options["first_admin"]
        if is_first and User.objects.admins().exists():
            return
        if options["person"]:
            token = _reset(options["person"])
        else:
            role = Role.ADMIN if is_first else next(r for r in Role if r.label == options["role"])
            invite, token = Invite.make(role=role, by=None, is_first=is_first)
            AuditEntry.note(None, "invite", invite, **{"from": "command line"})
        self.stdout.write(options["base_url"].rstrip("/") + reverse("join", args=[token]))


def _reset(name: str) -> str:
    """The token of a link to a new password. Raises CommandError."""
    try:
        person = User.objects.get_by_natural_key(name)
    except User.DoesNotExist:
        raise CommandError(f"Nobody is called “{name}”.") from None
    if not person.is_active:
        raise CommandError(f"{person} is disabled. An admin enables the account under Settings.")
    with transaction.atomic():
        _invite, token = Invite.make(role=Role(person.role), by=None, person=person)
        AuditEntry.note(None, "reset link", person, **{"from": "command line"})
    return token

"""Print a one-time link that lets a person in."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.urls import reverse
from django.utils import timezone

from servers.models import Invite, Role, User


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--base-url", default="", help="http://rtx8:8470")
        parser.add_argument("--role", default="viewer", choices=[role.label for role in Role])
        parser.add_argument(
            "--first-admin",
            action="store_true",
            help="an admin's link, if there is no admin yet; else print nothing",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        role = next(role for role in Role if role.label == options["role"])
        if options["first_admin"]:
            if User.objects.admins().exists():
                return
            role = Role.ADMIN
            # The newest link is the one that was printed last: earlier ones end.
            Invite.objects.open().filter(created_by=None, role=role, person=None).update(
                expires_at=timezone.now()
            )
        _invite, token = Invite.make(role=role, by=None)
        self.stdout.write(options["base_url"].rstrip("/") + reverse("join", args=[token]))

"""Write profiles, people, keys and settings to one file, while everything runs."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from servers.lifecycle.people import backup
from servers.lifecycle.people.backup import TABLES
from servers.management import console
from servers.management.console import format_counts
from servers.management.database import DatabaseCommand

LEFT_OUT = (
    "Not in it: runs with their logs and diagnoses, the history of GPUs, alerts, the audit log, "
    "open invitations, and two files that you copy yourself: the settings (.env) and box.toml."
)


class Command(DatabaseCommand):
    help = __doc__ or ""
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="to be made; its name ends in .inferdash")
        console.add_passphrase(parser, without="do not ask for one")

    def handle(self, *args: Any, **options: Any) -> None:
        phrase = ""
        if options["passphrase_file"]:
            phrase = console.from_file(options["passphrase_file"])
        elif not options["without_secrets"]:
            phrase = console.ask_new_passphrase()
        try:
            taken = backup.take(options["file"], passphrase=phrase)
        except backup.BackupError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{options['file']}: {format_counts(TABLES, taken.counts)}.")
        if taken.has_secrets:
            self.stdout.write(
                "Secrets are in it, under the passphrase: nobody can restore them without it."
            )
        else:
            self.stdout.write(
                "Secrets are not in it: they are to be entered again after a restore."
            )
        self.stdout.write(LEFT_OUT)

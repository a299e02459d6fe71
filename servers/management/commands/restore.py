"""Bring a backup into an empty installation, and say what this box lacks for it."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from servers.lifecycle.people import backup
from servers.lifecycle.people.backup import TABLES, Archive
from servers.lifecycle.people.restore import check, list_missing, restore
from servers.management import console
from servers.management.console import format_counts, size
from servers.management.database import DatabaseCommand
from servers.models import Box


class Command(DatabaseCommand):
    help = __doc__ or ""
    fills_empty = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        console.add_passphrase(parser, without="leave them out")
        parser.add_argument(
            "--replace",
            action="store_true",
            help="delete what is here first, with all runs and logs",
        )
        parser.add_argument(
            "--keep-box",
            action="store_true",
            help="the backup's only box keeps its name, and does not become this one",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            archive = backup.read_archive(options["file"])
            checked = check(archive, passphrase=_passphrase(archive, options))
            done = restore(checked, replace=options["replace"], keep_boxes=options["keep_box"])
        except (backup.BackupError, backup.WrongPassphrase) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"Restored: {format_counts(TABLES, done.counts)}.")
        if done.renamed:
            before, now = done.renamed
            self.stdout.write(f"The box {before} of the backup is {now} here.")
        for slug in done.elsewhere:
            self.stdout.write(f"Servers of the box {slug} wait until its worker has come.")
        for each in done.to_enter:
            self.stdout.write(f"To be entered again: {each}.")
        self._tell_lacks(archive)
        self.stdout.write(
            "Restart inferdash now (make up again, or systemctl restart inferdash.target), and look "
            "through box.toml: what containers may do on this box is not in a backup."
        )

    def _tell_lacks(self, archive: Archive) -> None:
        box = Box.objects.filter(slug=settings.BOX).first() or Box(slug=settings.BOX)
        found = list_missing(box, archive.manifest.get("needs", {}))
        for kind in ("image", "model"):
            lacks = [each for each in found if each.kind == kind]
            missing = [each for each in lacks if not each.why]
            if not lacks:
                self.stdout.write(f"This box has every {kind} that the profiles name.")
            if missing:
                self.stdout.write(f"This box lacks {len(missing)} {kind}{'s'[: len(missing) > 1]}:")
            for each in missing:
                self.stdout.write(f"  {each.name}  {size(each.size)}")
            for each in lacks:
                if each.why:
                    self.stdout.write(
                        f"Not known whether the {kind} {each.name} is here: {each.why}"
                    )


def _passphrase(archive: Archive, options: dict[str, Any]) -> str:
    if archive.secrets is None or options["without_secrets"]:
        return ""
    if options["passphrase_file"]:
        return console.from_file(options["passphrase_file"])
    return console.read_known()

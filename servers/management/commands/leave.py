"""Write docker run lines and compose files for everything, to go on without inferdash."""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from servers.lifecycle.profiles import export_all
from servers.lifecycle.profiles.export_all import ExportedFile
from servers.management.database import DatabaseCommand
from servers.models.people.key import SecretError


class Command(DatabaseCommand):
    help = __doc__ or ""
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="to be made; an empty one may be there")
        parser.add_argument(
            "--with-secrets",
            action="store_true",
            help="tokens and keys in the clear, in files that only you can read",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["folder"]
        try:
            found = export_all.files(with_secrets=options["with_secrets"])
            if folder.exists() and any(folder.iterdir()):
                raise CommandError(f"{folder} is not empty. Name another folder.")
            for file in found:
                _write(folder, file)
        except SecretError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{folder} cannot be written: {error.strerror}.") from error
        self.stdout.write(
            f"{len(found)} file{'s' if len(found) > 1 else ''} in {folder}: read its README.md. Nothing was stopped or changed."
        )


def _write(folder: Path, file: ExportedFile) -> None:
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o600 if file.is_secret else 0o644
    if path.suffix == ".sh":
        mode |= 0o100 if file.is_secret else 0o111
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as opened:
        opened.write(file.text)

"""Move every row from SQLite to PostgreSQL, compare both, and keep the old file."""

import fcntl
import os
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from servers.lifecycle.links.database_move import MoveError, move


class Command(BaseCommand):
    help = __doc__ or ""
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--to",
            metavar="URL",
            help="postgresql://…, an empty database; left out: the one that DATABASE_URL names",
        )
        parser.add_argument(
            "--from",
            dest="source",
            type=Path,
            default=settings.DATA / "inferdash.sqlite3",
            help="the SQLite file; left out: that of the data folder",
        )
        parser.add_argument(
            "--is-claimed",
            action="store_true",
            help="whoever calls this holds the data folder already (make up BOXES=1)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        url = options["to"] or os.environ.get("DATABASE_URL", "")
        if not url:
            raise CommandError("Say where to: --to postgresql://user:password@host/database.")
        if connection.vendor == "sqlite":
            connection.close()
        with _claim(settings.DATA, is_claimed=options["is_claimed"]):
            try:
                done = move(options["source"], url, self._tell)
            except MoveError as error:
                raise CommandError(str(error)) from error
        for column, count in sorted(done.changed.items()):
            self.stdout.write(
                f"{column}: {count} values changed, as PostgreSQL keeps no NUL in a text and no "
                "text longer than its column."
            )
        self.stdout.write(
            f"Moved {done.rows} rows of {done.tables} tables; both were compared and are alike. "
            f"The old database is kept as {done.kept}."
        )

    def _tell(self, line: str) -> None:
        self.stdout.write(f"  {line}")
        self.stdout.flush()


@contextmanager
def _claim(data: Path, *, is_claimed: bool) -> Iterator[None]:
    """The data folder, as make up holds it. Raises CommandError where it runs."""
    if is_claimed:
        yield
        return
    descriptor = os.open(data / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CommandError(
                f"inferdash runs on {data}. Stop it first (Ctrl-C where it runs); engines go on."
            ) from error
        yield
    finally:
        os.close(descriptor)

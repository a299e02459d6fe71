"""Start a program of a further box once its hub answers and has the same tables as this version."""

import argparse
import os
import signal
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import Error, connection
from django.db.migrations.loader import MigrationLoader

LOOK_EVERY = 2.0  # seconds
TELL_EVERY = 60.0


class Command(BaseCommand):
    help = __doc__
    # The checks of a start ask the database, which may not be there yet.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("program", nargs=argparse.REMAINDER)

    def handle(self, *args: Any, **options: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        told_at, told = 0.0, ""
        while why := find_obstacle():
            now = time.monotonic()
            if why != told or now - told_at >= TELL_EVERY:
                self.stdout.write(why)
                self.stdout.flush()
                told_at, told = now, why
            time.sleep(LOOK_EVERY)
        connection.close()
        program = options["program"]
        os.execv(program[0], program)  # noqa: S606 - the plan names the program


def find_obstacle() -> str:
    """Why nothing of this box can start yet; "" where all can."""
    try:
        loader = MigrationLoader(connection)
    except Error as error:
        return f"Waiting for the hub: {str(error).strip().splitlines()[0]}"
    finally:
        connection.close()
    ours = {name for app, name in loader.disk_migrations if app == "servers"}
    theirs = {name for app, name in loader.applied_migrations if app == "servers"}
    if lacks := ours - theirs - _list_replaced(loader):
        return (
            f"The hub is older than this box (it lacks {max(lacks)}; here is {settings.VERSION}): "
            "bring the hub to this version first. Engines go on."
        )
    if unknown := theirs - ours:
        return (
            f"The hub is newer than this box (it has {max(unknown)}; here is {settings.VERSION}): "
            "bring inferdash on this box to the hub's version, then say make up. Engines go on."
        )
    return ""


def _list_replaced(loader: MigrationLoader) -> set[str]:
    """Squashed ones, and what they stand for: either of them is enough."""
    found = set[str]()
    for key, migration in loader.replacements.items():
        found |= {key[1], *(name for _app, name in migration.replaces)}
    return found

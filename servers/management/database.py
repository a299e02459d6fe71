"""The base of commands that need the tables of the database."""

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor


class DatabaseCommand(BaseCommand):
    """Refuses a database whose tables are missing or of another version."""

    fills_empty = False  # makes the tables of a database that has none

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            lacks, has_any = count_migrations()
        except Error as error:
            raise CommandError(f"Cannot use {name_database()}: {str(error).strip()}") from error
        if not has_any and self.fills_empty:
            call_command("migrate", interactive=False, verbosity=0)
        elif lacks:
            state = f"is {lacks} changes behind this version" if has_any else "has no tables yet"
            raise CommandError(
                f"Cannot use {name_database()}: it {state}. Start inferdash once, which brings it up "
                "to date, or run manage.py migrate. INFERDASH_DATA and DATABASE_URL say which "
                "database is meant."
            )
        return super().execute(*args, **options)


def count_migrations() -> tuple[int, bool]:
    """How many the database lacks, and whether it has any."""
    executor = MigrationExecutor(connection)
    lacks = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return len(lacks), bool(executor.loader.applied_migrations)


def name_database() -> str:
    if connection.vendor == "sqlite":
        return f"the database {settings.DATABASES['default']['NAME']}"
    return f"the database that DATABASE_URL names ({connection.settings_dict['HOST']})"

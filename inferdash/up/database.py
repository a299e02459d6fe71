"""Migrations and the invitation of the first admin."""

import io

import django
from django.core.management import CommandError, call_command
from django.db import Error

from servers.management.database import count_migrations, name_database


class DatabaseError(Exception):
    """Why the database cannot be used, and what to do about it."""


def migrate_and_invite(base_url: str) -> str:
    """The one-time link of the first admin; empty where there is one already."""
    django.setup()
    try:
        if count_migrations()[0]:
            print("inferdash: bringing the database up to date", flush=True)
            call_command("migrate", interactive=False, verbosity=0)
        said = io.StringIO()
        call_command("invite", first_admin=True, base_url=base_url, stdout=said)
    except Error as error:
        raise DatabaseError(f"{name_database()} cannot be used: {str(error).strip()}") from error
    except CommandError as error:
        raise DatabaseError(str(error)) from error
    return said.getvalue().strip()

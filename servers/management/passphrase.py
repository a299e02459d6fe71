"""The passphrase of a backup: from a file, or from whoever sits at the terminal."""

import getpass
import sys
from pathlib import Path

from django.core.management.base import CommandError

from servers.lifecycle.people.backups.encryption import SHORTEST


def from_file(name: str) -> str:
    """Its first line. Raises CommandError."""
    try:
        lines = Path(name).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise CommandError(f"The passphrase cannot be read from {name}: {error}") from error
    if not lines or len(lines[0]) < SHORTEST:
        raise CommandError(f"{name} is to hold a passphrase of at least {SHORTEST} characters.")
    return lines[0]


def new() -> str:
    """A new one, typed twice; "" where nobody wants one or nobody is there to ask."""
    if not sys.stdin.isatty():
        return ""
    while True:
        typed = getpass.getpass("Passphrase for the secrets (empty: leave them out): ")
        if not typed:
            return ""
        if len(typed) < SHORTEST:
            sys.stdout.write(f"Type at least {SHORTEST} characters.\n")
        elif typed == getpass.getpass("The same again: "):
            return typed
        else:
            sys.stdout.write("These are two different ones.\n")


def read_known() -> str:
    """That of a backup; "" where nobody knows it or nobody is there to ask."""
    if not sys.stdin.isatty():
        return ""
    return getpass.getpass("The backup's passphrase (empty: leave secrets out): ")

"""Commands on a console: permissions, passphrases, words."""

import getpass
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from servers.judge.runs import open_limits
from servers.lifecycle.people.backup import SHORTEST, Table
from servers.lifecycle.runs import permits
from servers.lifecycle.runs.permits import Verb
from servers.management.database import DatabaseCommand


class PermissionCommand(DatabaseCommand):
    verb: Verb

    def add_arguments(self, parser: ArgumentParser) -> None:
        switches, lists = ", ".join(open_limits.SWITCHES), ", ".join(open_limits.LISTS)
        parser.add_argument("what", help=f"{switches}; or, with values: {lists}")
        parser.add_argument("values", nargs="*", help="mount /x, device /dev/x, capability NET_RAW")
        # Where box.toml is root's, root's script writes what this prints, then has it noted.
        parser.add_argument("--as-text", action="store_true", help="print what the file is to say")
        parser.add_argument("--note-only", action="store_true", help="it was written: note it")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            asked = permits.change(self.verb, (options["what"], *options["values"]))
            if options["as_text"]:
                self.stdout.write(permits.text_with(asked), ending="")
                return
            if options["note_only"]:
                permits.note(asked)
            elif not permits.do(asked):
                self.stdout.write(f"{settings.BOX_FILE} says so already.")
                return
        except permits.PermitError as error:
            raise CommandError(str(error)) from error
        done = "allowed" if self.verb == "allow" else "no longer allowed"
        self.stdout.write(f"{asked}: {done} on {settings.BOX}. It counts from the next start on.")


def add_passphrase(parser: ArgumentParser, *, without: str) -> None:
    """How the passphrase of secrets is had, or left out: what that means is `without`."""
    secrets = parser.add_mutually_exclusive_group()
    secrets.add_argument(
        "--passphrase-file", metavar="FILE", help="its first line is the secrets' passphrase"
    )
    secrets.add_argument("--without-secrets", action="store_true", help=without)


def from_file(name: str) -> str:
    """Its first line. Raises CommandError."""
    try:
        lines = Path(name).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise CommandError(f"The passphrase cannot be read from {name}: {error}") from error
    if not lines or len(lines[0]) < SHORTEST:
        raise CommandError(f"{name} is to hold a passphrase of at least {SHORTEST} characters.")
    return lines[0]


def ask_new_passphrase() -> str:
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


GIB = 2**30


def format_counts(tables: Iterable[Table], counts: Mapping[str, int]) -> str:
    """ "2 people, 5 profiles, 11 versions of them"; tables without rows are left out."""
    parts = [each.format_count(counts[each.name]) for each in tables if counts.get(each.name)]
    return ", ".join(parts) or "nothing yet"


def size(of: int | None) -> str:
    return "size not known" if of is None else f"{of / GIB:.1f} GiB"

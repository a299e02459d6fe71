"""The base of the commands allow and forbid."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from servers.judge.runs import limits_file
from servers.lifecycle.runs import permits
from servers.lifecycle.runs.permits import Verb
from servers.management.database import DatabaseCommand


class PermissionCommand(DatabaseCommand):
    verb: Verb

    def add_arguments(self, parser: ArgumentParser) -> None:
        switches, lists = ", ".join(limits_file.SWITCHES), ", ".join(limits_file.LISTS)
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

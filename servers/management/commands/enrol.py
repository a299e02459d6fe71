"""Take a box that asks to join: it says on standard input who it is, and waits for an admin.

Run by the hub's sshd alone, for who has a token.
"""

import json
import os
import select
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from servers.lifecycle.links.enrolment import BoxIntroduction, EnrolmentError, ask, read_answer
from servers.models.people.key import SecretError

INTRODUCTION_WITHIN = 30.0  # seconds
LOOK_EVERY = 1.0


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("ident")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            # Only now: what it says of its clock is then no older than the way here.
            self._say({"ready": True})
            ready, _, _ = select.select([sys.stdin], [], [], INTRODUCTION_WITHIN)
            line = os.read(sys.stdin.fileno(), 16384).decode(errors="replace") if ready else ""
            came_from = os.environ.get("SSH_CONNECTION", "").partition(" ")[0]
            link = ask(options["ident"], BoxIntroduction.parse(line), came_from=came_from)
            self._say({"words": link.words})
            while (answer := read_answer(link)) is None:
                # The box closes its side when somebody gives up there.
                ended, _, _ = select.select([sys.stdin], [], [], LOOK_EVERY)
                if ended and not os.read(sys.stdin.fileno(), 1024):
                    return
            self._say({"joined": answer})
        except (EnrolmentError, SecretError) as error:
            self._say({"error": str(error)})
            raise SystemExit(1) from error

    def _say(self, said: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(said))
        self.stdout.flush()

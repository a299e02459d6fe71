"""Let in the boxes that have joined this hub: its sshd, their users in Redis and PostgreSQL."""

import signal
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from servers.lifecycle.links.keeper import HubKeeper, KeyFileError, SshdError, make_sshd


class Command(BaseCommand):
    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.WIRE != "hub":
            raise CommandError(
                "This inferdash takes in no further boxes: say make up BOXES=1 first."
            )
        keeper = HubKeeper(make_sshd())

        def stop(signum: int, frame: FrameType | None) -> None:
            keeper.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        self.stdout.write(f"Boxes join at port {settings.HUB_PORT}")
        try:
            keeper.run()
        except (SshdError, KeyFileError) as error:
            raise CommandError(str(error)) from error

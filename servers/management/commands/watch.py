"""Watch this box: Docker's events, logs, probes, GPU samples. Runs until it is told to stop."""

import logging
import signal
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from servers.watcher.loop import Watcher

log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            watcher = Watcher()
        except OperationalError as error:
            # On a further box the hub, or the way to it, may be away; the supervisor tries again.
            raise CommandError(f"The database does not answer: {str(error).strip()}") from error

        def stop(signum: int, frame: FrameType | None) -> None:
            watcher.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        self.stdout.write(f"Watching {watcher.box}")
        if not watcher.run():
            raise SystemExit(1)
        log.info("The watcher of %s has ended, as it was told to.", watcher.box)

"""Watch this box: Docker's events, logs, probes, GPU samples. Runs until it is told to stop."""

import signal
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand

from servers.watcher.loop import Watcher


class Command(BaseCommand):
    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        watcher = Watcher()

        def stop(signum: int, frame: FrameType | None) -> None:
            watcher.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        self.stdout.write(f"Watching {watcher.box}")
        if not watcher.run():
            raise SystemExit(1)

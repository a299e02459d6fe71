"""Let the hub through to the engines of this box, at a socket that ssh carries to it."""

import asyncio
import logging
import resource
import signal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from servers.host.links.files import WireFiles
from servers.host.links.relay import MOST_CONNECTIONS, Relay
from servers.lifecycle.links.reach import EnginePlaces

log = logging.getLogger(__name__)

# Two a connection, and what the process has open besides.
_FILES = 2 * MOST_CONNECTIONS + 256


class Command(BaseCommand):
    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.WIRE != "box":
            raise CommandError("This machine has joined no hub: say make join TOKEN=… first.")
        files = WireFiles(Path(settings.DATA))
        _allow_open_files()
        self.stdout.write(f"The hub reaches engines at {files.relay_socket}")
        asyncio.run(_serve(files))


async def _serve(files: WireFiles) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopping.set)
    secret = _SecretFile(files.relay_secret)
    relay = Relay(read_secret=secret.read, is_allowed=EnginePlaces().allows)
    async with await relay.listen(files.relay_socket):
        await stopping.wait()
        relay.close()


class _SecretFile:
    """Read again when it is another file, or has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, int, int] | None = None
        self._text = ""

    def read(self) -> str:
        """ "" where there is none."""
        try:
            now = self._path.stat()
            mark = (now.st_ino, now.st_mtime_ns, now.st_size)
            if mark != self._mark:
                self._text, self._mark = self._path.read_text().strip(), mark
        except OSError as error:
            log.warning("%s cannot be read: nobody is let through (%s)", self._path, error)
            self._text, self._mark = "", None
        return self._text


def _allow_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

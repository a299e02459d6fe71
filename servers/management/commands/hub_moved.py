"""Tell this box where its hub is now: hub_moved 10.0.0.9, or 10.0.0.9:8471. Its key must be the same."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from servers.host.links.files import WireFiles
from servers.host.links.keys import hash_key, keep_text
from servers.host.links.ssh import HubAddress, SshError, pin_host_key


class Command(BaseCommand):
    help = __doc__
    # Its checks ask the database, which is at the old address.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("address")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.WIRE != "box":
            raise CommandError("This machine has joined no hub: say make join TOKEN=… first.")
        files = WireFiles(Path(settings.DATA))
        host, port = read_address(options["address"], settings.HUB_PORT)
        known = files.known_hosts.read_text().partition(" ")[2]
        try:
            pin_host_key(HubAddress(host=host, port=port), hash_key(known), files.known_hosts)
        except SshError as error:
            raise CommandError(f"{error} Nothing was changed.") from error
        said = json.loads(files.hub.read_text()) | {"host": host, "port": port}
        keep_text(files.hub, json.dumps(said))
        self.stdout.write(
            f"The hub is at {host}, port {port}. Stop inferdash here, and say make up."
        )


def read_address(text: str, usual: int) -> tuple[str, int]:
    """Host and port. Raises CommandError."""
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]") or ":" in host.strip("[]") and not text.startswith("["):
        host, number = text, str(usual)
    host = host.strip("[]")
    if not host or not number.isdecimal() or not 0 < int(number) < 65536:
        raise CommandError(f"{text!r} is no address: write 10.0.0.9 or 10.0.0.9:8471.")
    return host, int(number)

"""The commands of a box's ssh client: one that asks to join, two that carry the link."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from servers.host.links.files import WireFiles
from servers.host.links.keys import check_public_line, hash_key, keep_text

SCAN_TIMEOUT = 10  # seconds


class SshError(Exception):
    """Why the hub was not reached; the text says what to do."""


@dataclass(frozen=True, kw_only=True)
class HubAddress:
    """Where the hub's sshd is."""

    host: str
    port: int

    @property
    def known_as(self) -> str:
        return f"[{self.host}]:{self.port}"


def pin_host_key(hub: HubAddress, expected: bytes, known_hosts: Path) -> str:
    """The hub's host key, whose SHA-256 is the expected one, kept as the only one that is trusted.

    Nothing secret is sent before. Raises SshError.
    """
    _find_ssh()
    scan = subprocess.run(
        ["ssh-keyscan", "-T", str(SCAN_TIMEOUT), "-t", "ed25519", "-p", str(hub.port), hub.host],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in scan.stdout.splitlines() if line and not line.startswith("#")]
    if not lines:
        raise SshError(
            f"No hub answers at {hub.host}, port {hub.port}. See whether it runs and whether a "
            "firewall lets this machine reach that port."
        )
    line = check_public_line(lines[0].partition(" ")[2])
    if hash_key(line) != expected:
        raise SshError(
            f"Another machine than the hub answers at {hub.host}, port {hub.port}: its key is not "
            "the one that the token names. Nothing was sent to it. Ask for a new token on the hub."
        )
    keep_text(known_hosts, f"{hub.known_as} {line}\n")
    return line


def make_enrol_command(hub: HubAddress, account: str, *, key: Path, known_hosts: Path) -> list[str]:
    return [*_make_start(key, known_hosts), "-p", str(hub.port), "-T", f"{account}@{hub.host}"]


@dataclass(frozen=True, kw_only=True)
class LinkCommands:
    """Two connections, so that a flood of streams does not hold up what is wanted of the box."""

    files: WireFiles
    hub: HubAddress
    account: str
    database_port: int
    redis_port: int
    box_port: int
    bulk_port: int

    def make_control(self) -> list[str]:
        files = self.files
        database = files.database_socket(self.database_port)
        return self._make(
            # A sample a second that is nearly the one before becomes a twentieth; the streams of
            # engines come in pieces too small to gain anything.
            *("-o", "Compression=yes"),
            *("-L", f"{database}:127.0.0.1:{self.database_port}"),
            *("-L", f"{files.redis_socket}:127.0.0.1:{self.redis_port}"),
        )

    def make_streams(self) -> list[str]:
        return self._make("-R", f"127.0.0.1:{self.box_port}:{self.files.relay_socket}")

    def make_bulk(self) -> list[str]:
        """A third one, while there is something large to fetch."""
        return self._make("-L", f"{self.files.bulk_socket}:127.0.0.1:{self.bulk_port}")

    def _make(self, *forwards: str) -> list[str]:
        start = _make_start(self.files.key, self.files.known_hosts)
        options = ("ExitOnForwardFailure=yes", "StreamLocalBindUnlink=yes")
        more = [word for option in options for word in ("-o", option)]
        where = ["-p", str(self.hub.port), f"{self.account}@{self.hub.host}"]
        return [*start, *more, "-N", "-T", *forwards, *where]


def _make_start(key: Path, known_hosts: Path) -> list[str]:
    """Nothing of the account's own configuration, keys and agents."""
    options = (
        "BatchMode=yes",
        "IdentitiesOnly=yes",
        "IdentityAgent=none",
        f"UserKnownHostsFile={known_hosts}",
        "GlobalKnownHostsFile=/dev/null",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=no",
        "ConnectTimeout=10",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        "ControlMaster=no",
        "ControlPath=none",
    )
    return [
        _find_ssh(),
        *("-F", "/dev/null", "-i", str(key)),
        *(word for option in options for word in ("-o", option)),
    ]


def _find_ssh() -> str:
    """Raises SshError."""
    if (found := shutil.which("ssh")) is None:
        raise SshError(
            "There is no ssh on this machine: install it (sudo apt install openssh-client; "
            "Fedora: dnf install openssh-clients)."
        )
    return found

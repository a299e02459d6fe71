"""The hub's own sshd: its configuration, who may log in, and what they may reach."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from servers.host.links.files import WireFiles
from servers.host.links.keys import keep_key, keep_text, write_public_line

# Of the links where root runs the hub: it owns no file and is in no group of Docker's.
ACCOUNT = "inferdash-wire"


class SshdError(Exception):
    """Why there is no sshd, and what to do about it."""


def find_sshd() -> str:
    """Its absolute path, without which it does not start. Raises SshdError."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:/sbin"
    if (found := shutil.which("sshd", path=path)) is None:
        raise SshdError(
            "There is no sshd on this machine, over which further boxes join: install it "
            "(sudo apt install openssh-server; Fedora: dnf). Its own service is not needed."
        )
    return os.path.realpath(found)


@dataclass(frozen=True, kw_only=True)
class HubSshd:
    files: WireFiles
    port: int
    owner: str  # the account that inferdash runs as, in whose name boxes ask to join
    account: str  # of the links of boxes; may be the same

    def write_config(self) -> Path:
        """Raises KeyFileError."""
        files = self.files
        keep_key(files.host_key)
        is_root = os.geteuid() == 0
        keys = files.keys_of("%u")
        # As another account it could not look into our folder, so that root reads it out.
        read = (
            [
                f"AuthorizedKeysCommand {shutil.which('cat')} {keys}",
                "AuthorizedKeysCommandUser root",
            ]
            if is_root
            else []
        )
        lines = [
            f"Port {self.port}",
            f"HostKey {files.host_key}",
            "PidFile none",
            f"AllowUsers {' '.join(sorted({self.owner, self.account}))}",
            f"AuthorizedKeysFile {'none' if is_root else keys}",
            *read,
            "AuthenticationMethods publickey",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "UsePAM no",
            "PermitRootLogin forced-commands-only",
            "AllowTcpForwarding yes",
            # Any socket that the account can open could be reached, also Docker's.
            "AllowStreamLocalForwarding no",
            "AllowAgentForwarding no",
            "X11Forwarding no",
            "PermitTunnel no",
            "PermitTTY no",
            "PermitUserRC no",
            "PermitUserEnvironment no",
            "GatewayPorts no",
            "MaxAuthTries 3",
            "MaxStartups 20:30:60",
            "LoginGraceTime 20",
            "ClientAliveInterval 5",
            "ClientAliveCountMax 3",
            "UseDNS no",
            # It would refuse files below a folder that others may write, such as /tmp; ours is for
            # our eyes alone, and is seen to by the settings.
            "StrictModes no",
            # Tells which key each connection has, which cut() in the keeper needs.
            "LogLevel VERBOSE",
        ]
        keep_text(files.sshd_config, "\n".join(lines) + "\n")
        return files.sshd_config

    def make_command(self) -> list[str]:
        """Raises SshdError."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # it insists on it
        # It ends with who started it, also where that was killed.
        end = ["setpriv", "--pdeathsig", "TERM"]
        return [*end, find_sshd(), "-D", "-e", "-f", str(self.files.sshd_config)]


@dataclass(frozen=True, kw_only=True)
class AllowedKey:
    line: str  # as in authorized_keys
    comment: str


@dataclass(frozen=True, kw_only=True)
class LinkKey(AllowedKey):
    """May reach two ports and listen on one."""

    opens: tuple[int, ...]
    listens: int

    def write(self) -> str:
        options = ["restrict", "port-forwarding", 'command="/bin/false"']
        options += [f'permitopen="127.0.0.1:{port}"' for port in self.opens]
        options.append(f'permitlisten="127.0.0.1:{self.listens}"')
        return f"{','.join(options)} {self.line} {self.comment}"


@dataclass(frozen=True, kw_only=True)
class EnrolKey(AllowedKey):
    """May run one command."""

    command: str

    def write(self) -> str:
        return f'restrict,command="{self.command}" {self.line} {self.comment}'


def write_keys(path: Path, keys: Iterable[LinkKey | EnrolKey]) -> bool:
    """Whether the file has changed. sshd reads it at each login."""
    text = "".join(f"{key.write()}\n" for key in keys)
    if path.exists() and path.read_text() == text:
        return False
    keep_text(path, text)
    return True


def read_host_line(files: WireFiles) -> str:
    """The hub's public host key. Raises KeyFileError."""
    return write_public_line(keep_key(files.host_key))

"""A wire of the tests' own: the relay of a box, and OpenSSH's reverse forward from the hub to it."""

import asyncio
import getpass
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from servers.host.http.wire import Way
from servers.host.links.files import WireFiles
from servers.host.links.keys import keep_key, keep_text, write_public_line
from servers.host.links.relay import Relay
from servers.host.links.ssh import HubAddress, LinkCommands
from servers.host.links.sshd import HubSshd, LinkKey, read_host_line, write_keys
from tests.ports import answers, free_port
from tests.waiting import PATIENCE, wait_until

SECRET = "the secret of this box"


@dataclass
class RelayThread:
    """A box's relay, in a thread. Use as a context manager."""

    path: Path
    secret: str = SECRET
    # What it lets the hub through to; None: everything.
    allowed: set[tuple[str, int]] | None = None
    most: int = 1000
    asked: list[tuple[str, int]] = field(default_factory=list)  # by connections
    relay: Relay = field(init=False)

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.relay = Relay(
            read_secret=lambda: self.secret, is_allowed=self._is_allowed, most=self.most
        )
        listening = asyncio.run_coroutine_threadsafe(self.relay.listen(self.path), self._loop)
        self._server = listening.result(PATIENCE)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.call(self._server.close)
        self.call(self.relay.close)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call[Found](self, work: Callable[[], Found]) -> Found:
        async def do() -> Found:
            return work()

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result(PATIENCE)

    def count_open(self) -> int:
        return self.call(lambda: len(self.relay.open))

    async def _is_allowed(self, address: str, port: int) -> bool:
        self.asked.append((address, port))
        return self.allowed is None or (address, port) in self.allowed


class SshWire:
    """The hub's sshd and the box's ssh, both on this machine: where the box's relay comes out."""

    def __init__(self, folder: Path) -> None:
        self.files, self.port = WireFiles(folder), free_port()
        account, hub_port = getpass.getuser(), free_port()
        sshd = HubSshd(files=self.files, port=hub_port, owner=account, account=account)
        sshd.write_config()
        line = write_public_line(keep_key(self.files.key))
        key = LinkKey(line=line, comment="box", opens=(), listens=self.port)
        write_keys(self.files.keys_of(account), [key])
        hub = HubAddress(host="127.0.0.1", port=hub_port)
        keep_text(self.files.known_hosts, f"{hub.known_as} {read_host_line(self.files)}\n")
        commands = LinkCommands(
            files=self.files, hub=hub, account=account, database_port=1, redis_port=2, bulk_port=3,
            box_port=self.port,
        )  # fmt: skip
        self._command = commands.make_streams()
        self._sshd = subprocess.Popen(sshd.make_command(), stderr=subprocess.DEVNULL)
        wait_until(lambda: answers(hub_port), "the hub's sshd answers")
        self._ssh: subprocess.Popen[bytes] | None = None

    @property
    def way(self) -> Way:
        return Way(port=self.port, secret=SECRET)

    def mend(self) -> None:
        self._ssh = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        wait_until(lambda: answers(self.port), "the box's relay comes out at the hub")

    def cut(self) -> None:
        if self._ssh is not None:
            self._ssh.kill()
            self._ssh.wait(PATIENCE)
            self._ssh = None
        wait_until(lambda: not answers(self.port), "the hub notices that the wire is cut")

    def end(self) -> None:
        if self._ssh is not None:
            self._ssh.kill()
            self._ssh.wait(PATIENCE)
        self._sshd.kill()
        self._sshd.wait(PATIENCE)


@contextmanager
def ssh_wire() -> Iterator[SshWire]:
    """Whole, and without a relay at its end."""
    with tempfile.TemporaryDirectory(prefix="ifd-") as folder:
        wire = SshWire(Path(folder))
        try:
            wire.mend()
            yield wire
        finally:
            wire.end()

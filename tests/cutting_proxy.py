"""A Unix socket in front of another one, which breaks off long answers."""

import contextlib
import socket
import threading
from pathlib import Path

from tests.unix_proxy import UnixProxy

CHUNK = 64 * 1024


class CuttingProxy(UnixProxy):
    def __init__(self, path: Path, target: str, *, cuts: list[int]) -> None:
        super().__init__(path, target)
        self.cuts = cuts  # bytes after which the next answers end, one entry a cut

    def carry(self, client: socket.socket, target: socket.socket) -> None:
        threading.Thread(target=_copy, args=[client, target], daemon=True).start()
        passed = 0
        while data := target.recv(CHUNK):
            client.sendall(data)
            passed += len(data)
            if self.cuts and passed > self.cuts[0]:
                self.cuts.pop(0)
                return


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)

"""A Unix socket in front of another one: a thread for each of its connections."""

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self


class UnixProxy:
    """Use as a context manager. What is done with a connection is said by `carry`."""

    def __init__(self, path: Path, target: str) -> None:
        self.host = f"unix://{path}"
        self._target = target.removeprefix("unix://")
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # close() alone does not wake a thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End every connection there is, as a server that goes away does."""
        with self._lock:
            several = list(self._open)
        for each in several:
            shut(each)

    def carry(self, client: socket.socket, target: socket.socket) -> None:
        """Until one connection is over."""
        raise NotImplementedError

    def _accept(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        target = socket.socket(socket.AF_UNIX)
        with client, target, contextlib.suppress(OSError):
            target.connect(self._target)
            with self._lock:
                self._open |= {client, target}
            try:
                self.carry(client, target)
            finally:
                shut(client, target)
                with self._lock:
                    self._open -= {client, target}


def shut(*several: socket.socket) -> None:
    """Also wakes a thread that waits for one of them."""
    for each in several:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)

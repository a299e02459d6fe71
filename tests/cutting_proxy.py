"""A Unix socket in front of another one, which breaks off long answers."""

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

CHUNK = 64 * 1024


class CuttingProxy:
    def __init__(self, path: Path, target: str, *, cuts: list[int]) -> None:
        self.host = f"unix://{path}"
        self.cuts = cuts  # bytes after which the next answers end, one entry a cut
        self._target = target.removeprefix("unix://")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()

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
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as target:
            target.connect(self._target)
            threading.Thread(target=_copy, args=[client, target], daemon=True).start()
            passed = 0
            with contextlib.suppress(OSError):
                while data := target.recv(CHUNK):
                    client.sendall(data)
                    passed += len(data)
                    if self.cuts and passed > self.cuts[0]:
                        self.cuts.pop(0)
                        break
            for end in (client, target):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)  # also wakes the other thread


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)

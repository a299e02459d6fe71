"""A port in front of the gateway, which keeps what a program asks there."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

CHUNK = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class RecordedRequest:
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: Any  # of JSON; None without one


@dataclass
class Recorder:
    """Passes bytes on as they come, in both directions; who hangs up on it is hung up on."""

    target: tuple[str, int]
    port: int = 0
    _heard: list[bytearray] = field(default_factory=list)  # by connection

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def asked(self) -> list[RecordedRequest]:
        return [each for heard in list(self._heard) for each in _requests(bytes(heard))]

    def accept(self, listening: socket.socket) -> None:
        while True:
            try:
                client, _address = listening.accept()
            except OSError:
                return  # closed: it is over
            threading.Thread(target=self._carry, args=[client], daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        heard = bytearray()
        self._heard.append(heard)
        with client, socket.create_connection(self.target) as target:
            back = threading.Thread(target=_copy, args=[target, client], daemon=True)
            back.start()
            _copy(client, target, heard)
            back.join()


@contextmanager
def recorder(target: tuple[str, int]) -> Iterator[Recorder]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = Recorder(target, listening.getsockname()[1])
        threading.Thread(target=made.accept, args=[listening], daemon=True).start()
        yield made
        listening.shutdown(socket.SHUT_RDWR)


def _copy(source: socket.socket, target: socket.socket, heard: bytearray | None = None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            if heard is not None:
                heard += data
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def _requests(heard: bytes) -> Iterator[RecordedRequest]:
    """Those of one connection that are whole."""
    while True:
        head, found, rest = heard.partition(b"\r\n\r\n")
        if not found:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _version = first.split(" ")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
        }
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        body = json.loads(rest[:length]) if length else None
        yield RecordedRequest(method=method, path=path, headers=headers, body=body)
        heard = rest[length:]

"""Streams that Docker Engine sends without end: one request, read as the bytes come."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

_RECEIVE = 1 << 18  # bytes; more than a Unix socket holds
_SUCCESS = (b"200", b"201", b"204")
_ANSWER_WITHIN = 120.0  # seconds; from then on silence is normal


class DockerSocketError(Exception):
    """Docker refused or broke off; the text is Docker's own or the kernel's."""


class DockerResponse:
    """The body of Docker's answer. close() ends it at once, also from another thread.

    Docker does what was asked for as long as somebody listens: a pull ends with its answer.
    Raises DockerSocketError when Docker does not answer with success.
    """

    def __init__(
        self,
        host: str,
        path: str,
        *,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        content_type: str = "application/json",
        silence: float | None = None,
    ) -> None:
        """`silence`: seconds without a byte after which it breaks off; None: that is normal."""
        self._lock = threading.Lock()
        self._is_receiving = False
        self.is_closed = False
        try:
            self._socket = _connect(host)
        except OSError as error:
            raise DockerSocketError(str(error)) from error
        try:
            # HTTP/1.0: no chunks around the stream.
            lines = [f"{method} {path} HTTP/1.0", "Host: docker"]
            lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
            if body:
                lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
            self._socket.sendall("\r\n".join([*lines, "", ""]).encode() + body)
            self._first = self._head()
            self._socket.settimeout(silence)
        except OSError as error:
            self._socket.close()
            raise DockerSocketError(str(error)) from error
        except DockerSocketError:
            self._socket.close()
            raise

    def receive(self) -> bytes:
        """The next bytes; empty at the end, and when it was closed."""
        if self._first:
            first, self._first = self._first, b""
            return first
        with self._lock:
            if self.is_closed:
                return b""
            self._is_receiving = True
        try:
            return self._socket.recv(_RECEIVE)
        except OSError as error:
            raise DockerSocketError(str(error)) from error
        finally:
            with self._lock:
                self._is_receiving = False
                if self.is_closed:
                    self._socket.close()

    def lines(self) -> Iterator[bytes]:
        """Line by line, without the empty ones."""
        buffer = b""
        while received := self.receive():
            *lines, buffer = (buffer + received).split(b"\n")
            yield from filter(bytes.strip, lines)
        if buffer.strip():
            yield buffer

    def close(self) -> None:
        with self._lock:
            self.is_closed = True
            if self._is_receiving:
                # The number of a closed socket could be given to another one under recv():
                # whoever receives is woken, and closes.
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
            else:
                self._socket.close()

    def _head(self) -> bytes:
        """Read the head; returns what came after it."""
        received = bytearray()
        while b"\r\n\r\n" not in received:
            more = self._socket.recv(_RECEIVE)
            if not more:
                raise DockerSocketError("Docker closed the connection without an answer.")
            received += more
        head, _blank, body = bytes(received).partition(b"\r\n\r\n")
        if head.split(b" ", 2)[1] not in _SUCCESS:
            while more := self._socket.recv(_RECEIVE):
                body += more
            raise DockerSocketError(_message(body) or head.decode())
        return body


def _message(body: bytes) -> str:
    text = body.decode(errors="replace").strip()
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text


def _connect(host: str) -> socket.socket:
    parts = urlsplit(host)
    if parts.scheme in ("unix", "http+unix"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_ANSWER_WITHIN)
        try:
            connection.connect(parts.path or parts.netloc)
        except OSError:
            connection.close()
            raise
        return connection
    return socket.create_connection(
        (parts.hostname or "", parts.port or 2375), timeout=_ANSWER_WITHIN
    )

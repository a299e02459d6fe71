"""Reads a container's log from Docker's socket, fast, with both streams apart.

Docker multiplexes a log as frames: one byte for the stream, three of padding, four for the
length, then the line. A generic HTTP client hands each frame over by itself, which costs
more than the line: here one recv() takes in hundreds of them.
"""

import socket
import struct
from collections.abc import Iterator
from typing import Literal
from urllib.parse import quote, urlencode, urlsplit

type Line = tuple[str, Literal["o", "e"], bytes]  # RFC 3339 timestamp, stream, text

_HEADER = struct.Struct(">BxxxL")
_RECEIVE = 1 << 20


class LogStreamError(Exception):
    """Docker refused or broke off; the text is Docker's own."""


class LogStream:
    """An iterator over lines. close() ends it, also from another thread."""

    def __init__(self, host: str, container: str, *, since: str, follow: bool) -> None:
        query = {"stdout": 1, "stderr": 1, "timestamps": 1, "follow": int(follow)}
        if since:
            query["since"] = since  # type: ignore[assignment]
        self._closed = False
        self._path = f"/containers/{quote(container)}/logs?{urlencode(query)}"
        self._socket = _connect(host)

    def close(self) -> None:
        self._closed = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it was closed already

    def __iter__(self) -> Iterator[Line]:
        try:
            # HTTP/1.0: no chunks around the frames.
            self._socket.sendall(f"GET {self._path} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
            yield from self._lines()
        except OSError as error:
            if not self._closed:
                raise LogStreamError(str(error)) from error
        finally:
            self._socket.close()

    def _lines(self) -> Iterator[Line]:
        buffer = self._head()
        # Docker cuts lines at 16 KiB; only the last piece ends with a newline.
        pieces: dict[int, tuple[str, list[bytes]]] = {}
        while True:
            at = 0
            size = len(buffer)
            while size - at >= 8:
                kind, length = _HEADER.unpack_from(buffer, at)
                if size - at - 8 < length:
                    break
                stamp, _space, text = bytes(buffer[at + 8 : at + 8 + length]).partition(b" ")
                at += 8 + length
                ended = text.endswith(b"\n")
                if ended:
                    text = text[:-1]
                if kind in pieces or not ended:
                    first, parts = pieces.setdefault(kind, (stamp.decode("ascii"), []))
                    parts.append(text)
                    if ended:
                        del pieces[kind]
                        yield first, "e" if kind == 2 else "o", b"".join(parts)
                else:
                    yield stamp.decode("ascii"), "e" if kind == 2 else "o", text
            del buffer[:at]
            received = self._socket.recv(_RECEIVE)
            if not received:
                break
            buffer += received
        # What a killed process wrote last has no newline.
        for kind, (first, parts) in pieces.items():
            yield first, "e" if kind == 2 else "o", b"".join(parts)

    def _head(self) -> bytearray:
        """Read the response's head; returns what came after it."""
        buffer = bytearray()
        while b"\r\n\r\n" not in buffer:
            received = self._socket.recv(_RECEIVE)
            if not received:
                raise LogStreamError("Docker closed the connection without an answer.")
            buffer += received
        head, _blank, body = bytes(buffer).partition(b"\r\n\r\n")
        status = head.split(b" ", 2)[1]
        if status != b"200":
            raise LogStreamError(
                f"{head.splitlines()[0].decode()}: {body.decode(errors='replace')}"
            )
        return bytearray(body)


def _connect(host: str) -> socket.socket:
    parts = urlsplit(host)
    try:
        if parts.scheme in ("unix", "http+unix"):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(parts.path or parts.netloc)
        else:
            connection = socket.create_connection((parts.hostname or "", parts.port or 2375))
    except OSError as error:
        raise LogStreamError(str(error)) from error
    return connection

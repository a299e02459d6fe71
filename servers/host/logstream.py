"""Reads a container's log from Docker's socket, fast, with both streams apart.

Docker multiplexes a log as frames: one byte for the stream, three of padding, four for the
length, then the line. A generic HTTP client hands each frame over by itself, which costs
more than the line: here one recv() takes in hundreds of them.
"""

import struct
from collections.abc import Iterator
from typing import Literal
from urllib.parse import quote, urlencode

from servers.host.docker_socket import Answer, DockerSocketError

type Line = tuple[str, Literal["o", "e"], bytes]  # RFC 3339 timestamp, stream, text

_HEADER = struct.Struct(">BxxxL")


class LogStreamError(Exception):
    """Docker refused or broke off; the text is Docker's own."""


class LogStream:
    """An iterator over lines. close() ends it, also from another thread.

    Raises LogStreamError when Docker refuses, and while it is read when Docker breaks off.
    """

    def __init__(self, host: str, container: str, *, since: str, follow: bool) -> None:
        query = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": str(int(follow))}
        if since:
            query["since"] = since
        try:
            self._answer = Answer(host, f"/containers/{quote(container)}/logs?{urlencode(query)}")
        except DockerSocketError as error:
            raise LogStreamError(str(error)) from error

    def close(self) -> None:
        self._answer.close()

    def __iter__(self) -> Iterator[Line]:
        try:
            yield from self._lines()
        except DockerSocketError as error:
            if not self._answer.is_closed:
                raise LogStreamError(str(error)) from error
        finally:
            self._answer.close()

    def _lines(self) -> Iterator[Line]:
        buffer = b""
        # Docker cuts lines at 16 KiB; only the last piece ends with a newline.
        pieces: dict[int, tuple[str, list[bytes]]] = {}
        unpack = _HEADER.unpack_from
        while received := self._answer.receive():
            buffer = buffer + received if buffer else received
            at = 0
            last = len(buffer) - _HEADER.size
            while at <= last:
                kind, length = unpack(buffer, at)
                if at + length > last:
                    break
                at += _HEADER.size
                stamp, _space, text = buffer[at : at + length].partition(b" ")
                at += length
                if text[-1:] == b"\n" and kind not in pieces:
                    yield stamp.decode("ascii"), "e" if kind == 2 else "o", text[:-1]
                    continue
                first, parts = pieces.setdefault(kind, (stamp.decode("ascii"), []))
                parts.append(text)
                if text[-1:] == b"\n":
                    del pieces[kind]
                    yield first, "e" if kind == 2 else "o", b"".join(parts)[:-1]
            buffer = buffer[at:]
        # What a killed process wrote last has no newline.
        for kind, (first, parts) in pieces.items():
            yield first, "e" if kind == 2 else "o", b"".join(parts)

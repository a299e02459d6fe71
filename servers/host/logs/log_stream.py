"""A container's log from Docker's socket, with both streams apart.

Docker multiplexes a log as frames: one byte for the stream, three of padding, four for the
length, then the line. A generic HTTP client hands each frame over by itself, which costs
more than the line: here one recv() takes in hundreds of them.
"""

import struct
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import quote, urlencode

from servers.host.docker.socket import DockerResponse, DockerSocketError

type Line = tuple[str, Literal["o", "e"], bytes]  # RFC 3339 timestamp, stream, text

# What an engine prints without a newline is handed on in parts of this size: it may go on for ever.
LONGEST = 1024 * 1024

_HEADER = struct.Struct(">BxxxL")


class LogStreamError(Exception):
    """Docker refused or broke off; the text is Docker's own."""


class LogStream:
    """An iterator over lines. close() ends it, also from another thread.

    A container with a terminal (`docker run -t`) has one stream, which Docker hands out as it is.
    What comes after the last newline is handed out with_rest only, else kept as `rest`: it is what
    a killed process wrote last where all was read, and half a line where Docker or we broke off.
    Raises LogStreamError when Docker refuses, and while it is read when Docker breaks off.
    """

    def __init__(
        self,
        host: str,
        container: str,
        *,
        since: str,
        follow: bool,
        has_terminal: bool = False,
        with_rest: bool | None = None,
    ) -> None:
        self._has_terminal = has_terminal
        self._with_rest = not follow if with_rest is None else with_rest
        self.rest: list[Line] = []
        query = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": str(int(follow))}
        if since:
            query["since"] = since
        try:
            self._answer = DockerResponse(
                host, f"/containers/{quote(container)}/logs?{urlencode(query)}"
            )
        except DockerSocketError as error:
            raise LogStreamError(str(error)) from error

    def close(self) -> None:
        self._answer.close()

    def __iter__(self) -> Iterator[Line]:
        try:
            yield from self._raw_lines() if self._has_terminal else self._lines()
            if self._with_rest:
                yield from self.rest
        except DockerSocketError as error:
            if not self._answer.is_closed:
                raise LogStreamError(str(error)) from error
        finally:
            self._answer.close()

    def _lines(self) -> Iterator[Line]:
        buffer = b""
        # Docker cuts lines at 16 KiB; only the last piece ends with a newline.
        pieces: dict[int, tuple[str, bytearray]] = {}
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
                first, line = pieces.setdefault(kind, (stamp.decode("ascii"), bytearray()))
                line += text
                has_ended = text[-1:] == b"\n"
                if has_ended or len(line) >= LONGEST:
                    if line != b"\n":  # the rest of one that was handed on
                        yield first, "e" if kind == 2 else "o", bytes(line).removesuffix(b"\n")
                    if has_ended:
                        del pieces[kind]
                    else:
                        pieces[kind] = (_microsecond_later(first), bytearray())
            buffer = buffer[at:]
        self.rest = [
            (first, "e" if kind == 2 else "o", bytes(line))
            for kind, (first, line) in pieces.items()
            if line
        ]

    def _raw_lines(self) -> Iterator[Line]:
        """Each after its timestamp; a terminal ends its lines with \\r\\n."""
        buffer = b""
        while received := self._answer.receive():
            *lines, buffer = (buffer + received).split(b"\n")
            yield from map(_raw_line, filter(bytes.strip, lines))
        self.rest = [_raw_line(buffer)] if buffer.strip() else []


def _raw_line(line: bytes) -> Line:
    stamp, _space, text = line.partition(b" ")
    return stamp.decode("ascii", "replace"), "o", text.removesuffix(b"\r")


def _microsecond_later(stamp: str) -> str:
    """Docker stamps all pieces of a line alike: parts must be told apart, each time in one way."""
    carry, rest = divmod(int(stamp[20:29]) + 1000, 10**9)
    whole = datetime.fromisoformat(stamp[:19]) + timedelta(seconds=carry)
    return f"{whole.isoformat()}.{rest:09d}{stamp[29:]}"

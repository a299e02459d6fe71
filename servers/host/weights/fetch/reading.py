"""One file of the Hub, read by ranges into a part file that can be resumed, and the pace of it."""

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable
from io import RawIOBase
from typing import BinaryIO

import httpx

from servers.host.http import bounded
from servers.host.weights.fetch.places import RepositoryFile

_LOOK_EVERY = 0.5  # seconds: whoever waits hears that nobody wants it any more
# So much may come at once after a pause, in seconds of the allowed pace.
_BURST = 0.25


class Pace:
    def __init__(self, limit: int = 0, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`limit` is bytes a second; 0: none."""
        self._limit = limit
        self._clock = clock
        self._paid_until = clock()
        self._lock = threading.Lock()
        self._changes = 0

    def set(self, limit: int) -> None:
        with self._lock:
            self._limit = limit
            self._paid_until = self._clock()
            self._changes += 1

    def keep(self, size: int, stop: threading.Event) -> None:
        """Wait as long as `size` bytes that have come cost; another pace ends the wait."""
        until, changes = self._clock() + self.take(size), self._changes
        while changes == self._changes and (left := until - self._clock()) > 0:
            if stop.wait(min(left, _LOOK_EVERY)):
                return

    def take(self, size: int) -> float:
        """Seconds to wait after `size` bytes have come."""
        with self._lock:
            if not self._limit:
                return 0.0
            now = self._clock()
            self._paid_until = max(self._paid_until, now - _BURST) + size / self._limit
            return max(0.0, self._paid_until - now)


# So much is asked for at once: what stands before the Hub's storage serves no endless answers, and
# a signed address ends.
PIECE = 1 << 30  # bytes
HOPS = 5
CHUNK = 256 << 10
_BLOCK = 8 << 20
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class RetryError(Exception):
    """It has not worked this time; the text says why. `after` is seconds, if the Hub says."""

    def __init__(self, says: str, after: float | None = None) -> None:
        super().__init__(says)
        self.after = after


class HubRefusalError(Exception):
    """The Hub has answered with an error that does not pass."""

    def __init__(self, status: int, headers: httpx.Headers) -> None:
        super().__init__(str(status))
        self.status = status
        self.headers = headers


class StoppedError(Exception):
    """Nobody wants it any more."""


def fill(
    client: httpx.Client,
    url: str,
    out: RawIOBase,
    file: RepositoryFile,
    *,
    pace: Pace,
    stop: threading.Event,
    grew: Callable[[int], None],
) -> None:
    """Read until the part is as long as the file. `grew` hears its size.

    Raises Again and httpx.HTTPError for what may pass, Refused, Stopped and OSError.
    """
    if os.fstat(out.fileno()).st_size > file.size:
        out.truncate(0)
    at = out.seek(0, os.SEEK_END)
    grew(at)
    while at < file.size:
        at = _piece(client, url, out, at, file, pace, stop, grew)
    os.fsync(out.fileno())


def _piece(
    client: httpx.Client,
    url: str,
    out: RawIOBase,
    at: int,
    file: RepositoryFile,
    pace: Pace,
    stop: threading.Event,
    grew: Callable[[int], None],
) -> int:
    """One answer's worth; the offset after it."""
    upto = min(at + PIECE, file.size)
    wanted = {"Range": f"bytes={at}-{upto - 1}"}
    with bounded.stream(client, url, wanted, hops=HOPS) as answer:
        if _begins(answer, file, httpx.URL(url).host) != at:
            # The whole of it, although only the rest was asked for.
            at = out.seek(0)
            out.truncate(0)
            upto = file.size
        for chunk in answer.iter_raw(CHUNK):
            if stop.is_set():
                raise StoppedError
            if at + len(chunk) > upto:
                raise RetryError(f"{file.name} came longer than the Hub says it is.")
            view = memoryview(chunk)
            while view:
                view = view[out.write(view) or 0 :]
            at += len(chunk)
            grew(at)
            pace.keep(len(chunk), stop)
    if at < upto:
        raise RetryError("The connection ended early.")
    return at


def _begins(answer: httpx.Response, file: RepositoryFile, hub: str) -> int:
    """The offset of an answer's first byte; `hub` is the host that was asked. Raises Again, Refused."""
    status = answer.status_code
    if status == httpx.codes.PARTIAL_CONTENT:
        told = _RANGE.match(answer.headers.get("Content-Range", ""))
        if told is None or told[3] not in ("*", str(file.size)):
            raise RetryError(f"{file.name} came as a part of another file.")
        return int(told[1])
    if status == httpx.codes.OK:
        return 0
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        after = answer.headers.get("Retry-After", "")
        says = f"{answer.url.host} answers {status}."
        raise RetryError(says, float(after) if after.isdecimal() else None)
    if answer.url.host != hub:
        # Not the Hub but its storage, whose signed addresses end: the next one is signed anew.
        raise RetryError(f"{answer.url.host} answers {status}.")
    raise HubRefusalError(status, answer.headers)


def digest(
    opened: BinaryIO, file: RepositoryFile, *, stop: threading.Event, looked: Callable[[int], None]
) -> str:
    """The hash by which the Hub knows it: SHA-256 of a large file, git's of a small one.

    `looked` hears how many bytes more were read. Raises OSError and Stopped.
    """
    if file.sha256:
        found = hashlib.sha256()
    else:
        found = hashlib.sha1(usedforsecurity=False)
        found.update(f"blob {file.size}\0".encode())
    block = bytearray(_BLOCK)
    view = memoryview(block)
    left = file.size
    # No further than it may be: somebody could let it grow for as long as it is read.
    while left >= 0 and (count := opened.readinto(block)):  # type: ignore[attr-defined]
        found.update(view[:count])
        left -= count
        looked(count)
        if stop.is_set():
            raise StoppedError
    return found.hexdigest()

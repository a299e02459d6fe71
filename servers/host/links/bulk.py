"""The hub's small web server for bundles: on its loopback, by the secret of a box, while one is brought up."""

import hashlib
import http.client
import logging
import re
import shutil
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

PATH = "/bundle"
_RANGE = re.compile(r"bytes=(\d+)-")
_PIECE = 1 << 20  # bytes
_QUIET = 30.0  # seconds without a byte after which a connection is given up

# The file that the holder of this secret may have now; None: nothing.
type FindBundle = Callable[[str], Path | None]


class BulkError(Exception):
    """Why a bundle was not fetched, and what to do about it."""


class BulkServer:
    """Raises OSError where its port is taken."""

    def __init__(self, port: int, find: FindBundle) -> None:
        class Handler(_BundleHandler):
            find_bundle = staticmethod(find)

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True, name="bulk").start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _BundleHandler(BaseHTTPRequestHandler):
    find_bundle: FindBundle
    timeout = _QUIET

    def do_GET(self) -> None:
        scheme, _blank, secret = self.headers.get("Authorization", "").partition(" ")
        path = type(self).find_bundle(secret) if scheme == "Bearer" and secret else None
        if path is None or self.path != PATH:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with path.open("rb") as file:
            size = path.stat().st_size
            found = _RANGE.fullmatch(self.headers.get("Range", ""))
            begin = min(int(found[1]), size) if found else 0
            self.send_response(HTTPStatus.PARTIAL_CONTENT if found else HTTPStatus.OK)
            self.send_header("Content-Length", str(size - begin))
            self.end_headers()
            file.seek(begin)
            shutil.copyfileobj(file, self.wfile, _PIECE)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


class _SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_QUIET)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def fetch_bundle(
    to: Path,
    *,
    by: Path,
    secret: str,
    size: int,
    digest: str,
    tell: Callable[[int], None],
) -> None:
    """Fetch the hub's bundle into the file, or what is missing of it. Raises BulkError.

    `by`: the socket that ssh carries to the hub. `size`: bytes. `digest`: SHA-256, in hex; a file of
    another one is deleted. `tell`: hears the whole percents that are there.
    """
    have = to.stat().st_size if to.exists() else 0
    if have < size:
        _fetch_rest(to, have, by=by, secret=secret, size=size, tell=tell)
    with to.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        to.unlink()
        raise BulkError("The bundle is another one than the hub has announced. Try again.")


def _fetch_rest(
    to: Path, have: int, *, by: Path, secret: str, size: int, tell: Callable[[int], None]
) -> None:
    connection = _SocketConnection(by)
    headers = {"Authorization": f"Bearer {secret}", "Range": f"bytes={have}-"}
    try:
        connection.request("GET", PATH, headers=headers)
        answer = connection.getresponse()
        if answer.status != HTTPStatus.PARTIAL_CONTENT:
            raise BulkError(f"The hub gave no bundle: it answered {answer.status}.")
        told = -1
        with to.open("ab") as file:
            while piece := answer.read(_PIECE):
                file.write(piece)
                have += len(piece)
                if (percent := 100 * have // size) != told:
                    told = percent
                    tell(percent)
    except (OSError, http.client.HTTPException) as error:
        raise BulkError(f"The bundle was not fetched: {error}.") from error
    finally:
        connection.close()
    if have != size:
        raise BulkError("The connection to the hub was cut while the bundle was fetched.")

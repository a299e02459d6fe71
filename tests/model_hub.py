"""A Hub of the tests' own: repositories with files, ranges, redirects, licences, and bad days."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from tests.waiting import PATIENCE

COMMIT = "c0ffee" + "0" * 34
TOKEN = "hf_accepted"  # of an account that has accepted every licence
EXPIRED = "hf_expired"  # which the Hub refuses whatever is asked, open models, too
LARGE = 1024  # from this size on a file is kept apart, as by LFS
_CHUNK = 16 << 10


def etag(content: bytes) -> str:
    """What the Hub and its caches call a file."""
    if len(content) >= LARGE:
        return hashlib.sha256(content).hexdigest()
    return blob(content)


def blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324


@dataclass
class Repository:
    files: dict[str, bytes]
    commit: str = COMMIT
    refs: tuple[str, ...] = ("main",)
    is_gated: bool = False


@dataclass
class HubRequest:
    method: str
    path: str
    range: str
    token: str
    host: str


@dataclass
class Behaviour:
    """What goes wrong, until somebody changes it."""

    cut_after: int = 0  # bytes of an answer, after which the connection is cut
    cuts: int = 0  # so often; 0: always
    spoiled: dict[str, int] = field(default_factory=dict)  # file: how often a byte of it is wrong
    no_ranges: bool = False
    statuses: list[int] = field(default_factory=list)  # of the next answers with a file
    allowed: int | None = None  # bytes of large files that are sent until more are allowed


class ModelHub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _HubHandler)
        self.repositories: dict[str, Repository] = {}
        self.asked: list[HubRequest] = []
        self.bad = Behaviour()
        self.sent = 0
        self._changed = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def has(self, name: str, files: dict[str, bytes], **more: Any) -> Repository:
        self.repositories[name] = Repository(files=files, **more)
        return self.repositories[name]

    def hold_after(self, size: int) -> None:
        """From now on send so many bytes of large files and no more."""
        with self._changed:
            self.bad.allowed = self.sent + size
            self._changed.notify_all()

    def release(self) -> None:
        with self._changed:
            self.bad.allowed = None
            self._changed.notify_all()

    def wait_until_held(self) -> None:
        with self._changed:
            held = self._changed.wait_for(lambda: self.sent == self.bad.allowed, PATIENCE)
        assert held, (self.sent, self.bad.allowed)

    def may_send(self, wanted: int) -> int:
        """How much of it; waits while nothing is allowed. 0: nobody waits any longer."""
        with self._changed:

            def left() -> int:
                allowed = self.bad.allowed
                return wanted if allowed is None else max(0, min(wanted, allowed - self.sent))

            self._changed.wait_for(left, PATIENCE)
            size = left()
            self.sent += size
            self._changed.notify_all()
            return size

    def ranges(self) -> list[str]:
        return [each.range for each in self.asked if each.range]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever is killed in a download leaves the connection behind: nothing to tell."""


class _HubHandler(BaseHTTPRequestHandler):
    server: ModelHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(self.path.partition("?")[0])
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        asked = HubRequest(
            method=self.command, path=path, range=self.headers.get("Range", ""), token=token,
            host=self.headers.get("Host", ""),
        )  # fmt: skip
        self.server.asked.append(asked)
        if token == EXPIRED:
            return self._refuse(401, "", message="Invalid credentials in Authorization header")
        if listed := re.fullmatch(r"/api/models/(.+)/revision/(.+)", path):
            return self._list(listed[1], unquote(listed[2]), token)
        if named := re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", path):
            return self._resolve(named[1], named[2], named[3], token)
        if stored := re.fullmatch(r"/store/(.+?)//(.+)", path):
            repository = self.server.repositories[stored[1]]
            return self._file(stored[2], repository.files[stored[2]])
        return self._refuse(404, "")

    def _list(self, name: str, revision: str, token: str) -> None:
        found = self._found(name, token)
        if found is None:
            return None
        if revision not in (*found.refs, found.commit):
            return self._refuse(404, "RevisionNotFound")
        siblings = []
        for each, content in found.files.items():
            said: dict[str, Any] = {
                "rfilename": each, "size": len(content), "blobId": blob(content),
            }  # fmt: skip
            if len(content) >= LARGE:
                said["lfs"] = {"sha256": etag(content), "size": len(content), "pointerSize": 134}
            siblings.append(said)
        body = {"id": name, "sha": found.commit, "siblings": siblings}
        self._json(200, body | {"gated": "auto" if found.is_gated else False})
        return None

    def _resolve(self, name: str, revision: str, file: str, token: str) -> None:
        found = self._found(name, token)
        if found is None:
            return None
        if found.is_gated and token != TOKEN:
            return self._refuse(403 if token else 401, "GatedRepo")
        if file not in found.files or revision not in (*found.refs, found.commit):
            return self._refuse(404, "EntryNotFound")
        content = found.files[file]
        if len(content) < LARGE:
            return self._file(file, content)
        # Another host, as the Hub's own storage is: no token may come along.
        port = self.server.server_address[1]
        self.send_response(302)
        self.send_header("Location", f"http://localhost:{port}/store/{name}//{file}?signed=1")
        self.send_header("X-Linked-Etag", f'"{etag(content)}"')
        self.send_header("Content-Length", "0")
        self.end_headers()
        return None

    def _found(self, name: str, token: str) -> Repository | None:
        found = self.server.repositories.get(name)
        if found is None:
            self._refuse(404 if token else 401, "RepoNotFound")
        return found

    def _file(self, name: str, content: bytes) -> None:
        bad = self.server.bad
        if bad.statuses and self.command == "GET":
            return self._refuse(bad.statuses.pop(0), "")
        if bad.spoiled.get(name) and self.command == "GET":
            bad.spoiled[name] -= 1
            content = content[:-1] + bytes([content[-1] ^ 1])
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = (int(asked[1]), int(asked[2])) if asked else (0, len(content) - 1)
        if asked and not bad.no_ranges and content:
            body = content[first : last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        else:
            body = content
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self._send(body, is_large=len(content) >= LARGE)
        return None

    def _send(self, body: bytes, *, is_large: bool) -> None:
        bad, at = self.server.bad, 0
        is_cut = bool(bad.cut_after) and len(body) > bad.cut_after
        end = bad.cut_after if is_cut else len(body)
        while at < end:
            size = min(_CHUNK, end - at)
            size = self.server.may_send(size) if is_large else size
            if not size:
                break
            self.wfile.write(body[at : at + size])
            self.wfile.flush()
            at += size
        if at < len(body):
            self.close_connection = True
            if is_cut and bad.cuts:
                bad.cuts -= 1
                bad.cut_after = bad.cut_after if bad.cuts else 0

    def _refuse(self, status: int, code: str, message: str = "") -> None:
        self._json(status, {"error": message or "no"}, code, message)

    def _json(self, status: int, said: Any, code: str = "", message: str = "") -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        if message:
            self.send_header("X-Error-Message", message)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        """Not into the tests' output."""


@contextmanager
def model_hub() -> Iterator[ModelHub]:
    with ModelHub() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield made
        finally:
            made.release()
            made.shutdown()
            thread.join()

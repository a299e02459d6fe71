"""Static files: styles, scripts and pictures of pages, from memory, under the version of all of them.

A browser keeps what it has loaded for good, since another version has another address. A running
server goes on serving the files that its pages were written for, whatever a `git pull` below it does.
"""

import gzip
import hashlib
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from re import compile as pattern

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage

from inferdash.limits import Application, Message, Receive, Send

_ADDRESS = pattern(r"/static/(?:([0-9a-f]{12})/)?(.+)")
# Seconds: a year, the most that browsers heed.
FOREVER = b"public, max-age=31536000, immutable"
ASK_AGAIN = b"public, no-cache"
# Lines of our scripts that are comments, and where types are said: a quarter of what a page loads.
_COMMENTS = pattern(rb"(?m)^[ \t]*(?://[^\n]*|/\*\*(?:[^*]|\*(?!/))*\*/[ \t]*)$")
# Of packages, what no page names: some hundred fonts, and maps for debuggers.
UNUSED = ["*.map", "*.ts", "*.mts", "*.ttf", "*.woff", "*.woff2"]
TEXT = frozenset({"text/css", "text/javascript", "image/svg+xml", "application/json"})


@dataclass(frozen=True)
class StaticFile:
    name: str
    content: bytes

    @cached_property
    def type(self) -> str:
        if self.name.endswith((".js", ".mjs")):
            return "text/javascript"
        return mimetypes.guess_type(self.name)[0] or "application/octet-stream"

    @cached_property
    def etag(self) -> bytes:
        return b'"%s"' % hashlib.sha256(self.content).hexdigest()[:16].encode()

    @cached_property
    def compressed(self) -> bytes | None:
        """None where that would spare little."""
        return gzip.compress(self.content, 6, mtime=0) if self.type in TEXT else None


def _find_files() -> Iterator[tuple[str, Path]]:
    for finder in finders.get_finders():
        for name, storage in finder.list(UNUSED):
            prefix = getattr(storage, "prefix", None)
            yield f"{prefix}/{name}" if prefix else name, Path(storage.path(name))


@cache
def read_all() -> dict[str, StaticFile]:
    # Of two of one name, Django's finders take the first.
    found = reversed([*_find_files()])
    return {name: StaticFile(name, _read_for_pages(name, path)) for name, path in found}


def _read_for_pages(name: str, path: Path) -> bytes:
    content = path.read_bytes()
    return strip_comments(content) if name.startswith("js/") and name.endswith(".js") else content


def strip_comments(script: bytes) -> bytes:
    """The script without lines that are comments; all others stay where they are.

    No literal of ours has a line that begins as a comment does; a test holds them to it.
    """
    return _COMMENTS.sub(lambda found: b"\n" * found[0].count(b"\n"), script)


@cache
def version() -> str:
    digest = hashlib.sha256()
    for name, file in sorted(read_all().items()):
        digest.update(b"%s\0%d\0" % (name.encode(), len(file.content)))
        digest.update(file.content)
    return digest.hexdigest()[:12]


class VersionedStorage(StaticFilesStorage):
    def url(self, name: str | None) -> str:
        address = super().url(name)
        if settings.DEBUG:
            return address
        return address.replace("/static/", f"/static/{version()}/", 1)


class StaticFiles:
    """Serves /static/ before Django is asked, which takes several times as long for each file."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        address = _ADDRESS.fullmatch(scope["path"])
        file = _find(address[2]) if address else None
        if address is None or file is None:
            await self.application(scope, receive, send)
        elif scope["method"] not in ("GET", "HEAD"):
            await _answer(send, 405, [(b"allow", b"GET, HEAD")])
        else:
            # A page of another version goes on with the files of today, and keeps none of them.
            is_current = not settings.DEBUG and address[1] == version()
            await _serve(file, scope, send, FOREVER if is_current else ASK_AGAIN)


def _find(name: str) -> StaticFile | None:
    if settings.DEBUG:  # while somebody works on them
        path = finders.find(name)
        return StaticFile(name, Path(path).read_bytes()) if path else None
    return read_all().get(name)


async def _serve(file: StaticFile, scope: Message, send: Send, caching: bytes) -> None:
    asked = dict(scope["headers"])
    kind = f"{file.type}; charset=utf-8" if file.type in TEXT else file.type
    headers = [
        (b"content-type", kind.encode()),
        (b"cache-control", caching),
        (b"etag", file.etag),
        (b"vary", b"accept-encoding"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if asked.get(b"if-none-match") == file.etag:
        await _answer(send, 304, headers)
        return
    content = file.content
    if file.compressed and b"gzip" in asked.get(b"accept-encoding", b""):
        content = file.compressed
        headers.append((b"content-encoding", b"gzip"))
    headers.append((b"content-length", b"%d" % len(content)))
    await _answer(send, 200, headers, b"" if scope["method"] == "HEAD" else content)


async def _answer(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], content: bytes = b""
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})

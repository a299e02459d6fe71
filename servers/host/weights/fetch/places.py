"""Files of a download: where they lie, in a Hugging Face cache or a plain folder, and how each is read.

Rules: the layouts of huggingface_hub (models--org--name/{blobs,refs,snapshots}, and the folder
.cache/huggingface/download of `hf download --local-dir`), its locks among them, so that an engine
that downloads the same file waits, or is waited for.
"""

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from io import RawIOBase
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal, Protocol, Self

import httpx

from servers.host.files.box_files import BoxFiles, RefusedFileError
from servers.host.http import bounded

type Layout = Literal["cache", "folder"]

# What the Hub allows as names, and git as revisions.
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
REVISION = re.compile(r"[A-Za-z0-9][\w./+-]{0,199}", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class FetchError(Exception):
    """A download cannot be made or go on; the text says why, `advice` what to do."""

    def __init__(self, says: str, advice: str = "") -> None:
        super().__init__(says)
        self.advice = advice


@dataclass(frozen=True, kw_only=True)
class RepositoryFile:
    """One file of a repository. `sha256` is "" for small ones, which git alone knows."""

    name: str
    size: int
    blob: str  # git's hash of it; of a large one of the pointer to it
    sha256: str = ""

    @property
    def etag(self) -> str:
        """What a Hugging Face cache calls it."""
        return self.sha256 or self.blob

    @classmethod
    def check(cls, said: Mapping[str, Any]) -> Self:
        """Raises FetchError for a name that leads elsewhere, or a hash that is none."""
        found = cls(
            name=str(said["name"]),
            size=int(said["size"]),
            blob=str(said["blob"]),
            sha256=str(said["sha256"]),
        )
        parts = found.name.split("/")
        is_safe = all(part not in ("", ".", "..") for part in parts) and not (
            {"\0", "\\", "\n"} & set(found.name)
        )
        if not is_safe or PurePosixPath(found.name).is_absolute() or found.size < 0:
            raise FetchError(f"The Hub names a file {found.name!r}, which is no name of a file.")
        if not _HASH.fullmatch(found.etag):
            raise FetchError(f"The Hub names no hash of {found.name}, so it cannot be verified.")
        return found


@dataclass(frozen=True, kw_only=True)
class DownloadSpec:
    """`files` is () until the Hub has been asked; then `commit` is known, too.

    `folder` is the box's: of the layout "cache" the folder with models--… in it. It and those of
    `below`, outside of which nothing is written, lead through no link; nothing in `own` is touched.
    `root` is where the child sees the box's "/".
    `others` are folders in which other downloads still need so many bytes. `verified` are size and
    time (ns) of files that were looked through already. `limit` is bytes a second, 0: none.
    """

    endpoint: str
    repository: str
    revision: str
    folder: str
    layout: Layout
    shown: str  # the same folder as people know it
    below: tuple[str, ...]
    own: tuple[str, ...] = ()
    root: str = "/"
    commit: str = ""
    patterns: tuple[str, ...] = ()
    files: tuple[RepositoryFile, ...] = ()
    verified: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    others: tuple[tuple[str, int], ...] = ()
    limit: int = 0
    streams: int = 4
    patience: float = 900.0  # seconds without a byte until it is given up
    token: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def files_of_box(self) -> BoxFiles:
        return BoxFiles(
            below=tuple(map(PurePosixPath, self.below)),
            own=tuple(map(PurePosixPath, self.own)),
            root=Path(self.root),
        )

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Raises FetchError as File.checked does, and for what is no revision or commit."""
        given = dict(said)
        if not REVISION.fullmatch(said["revision"]) or ".." in said["revision"]:
            raise FetchError(f"{said['revision']!r} is not the name of a revision.")
        if said["commit"] and not COMMIT.fullmatch(said["commit"]):
            raise FetchError(f"{said['commit']!r} is no commit of the Hub.")
        given["below"], given["own"] = tuple(said["below"]), tuple(said["own"])
        given["files"] = tuple(RepositoryFile.check(each) for each in said["files"])
        given["patterns"] = tuple(said["patterns"])
        given["others"] = tuple((str(where), int(size)) for where, size in said["others"])
        given["verified"] = {
            name: (int(size), int(at)) for name, (size, at) in said["verified"].items()
        }
        return cls(**given)


class Places(Protocol):
    @property
    def files(self) -> BoxFiles: ...
    @property
    def top(self) -> PurePosixPath: ...
    def final(self, file: RepositoryFile) -> PurePosixPath: ...
    def part(self, file: RepositoryFile) -> PurePosixPath: ...
    def lock(self, file: RepositoryFile) -> PurePosixPath: ...
    def settle(self, file: RepositoryFile) -> None:
        """Once it is whole and in its place."""

    def finish(self) -> None:
        """Once all are."""

    @property
    def may_replace(self) -> bool:
        """Whether a file of the right name with other content is only a broken one."""


@dataclass(frozen=True)
class HubCache:
    files: BoxFiles
    hub: PurePosixPath
    repository: str
    commit: str
    revision: str

    may_replace = True  # its name is its hash

    @property
    def top(self) -> PurePosixPath:
        return self.hub / ("models--" + self.repository.replace("/", "--"))

    def final(self, file: RepositoryFile) -> PurePosixPath:
        return self.top / "blobs" / file.etag

    def part(self, file: RepositoryFile) -> PurePosixPath:
        return self.top / "blobs" / f"{file.etag}.incomplete"

    def lock(self, file: RepositoryFile) -> PurePosixPath:
        return self.hub / ".locks" / self.top.name / f"{file.etag}.lock"

    def settle(self, file: RepositoryFile) -> None:
        link = self.top / "snapshots" / self.commit / file.name
        target = "../" * (2 + file.name.count("/")) + f"blobs/{file.etag}"
        make_room_for(link, self)
        try:
            if self.files.target(link) == target:
                return
        except OSError:
            pass  # not there, or no link: it becomes one
        self.files.link(link, target)

    def finish(self) -> None:
        """Only now does the branch stand for what was downloaded: until then for what was there."""
        if self.revision == self.commit:
            return
        ref = self.top / "refs" / self.revision
        make_room_for(ref, self)
        self.files.write(ref, self.commit.encode())


@dataclass(frozen=True)
class Folder:
    files: BoxFiles
    top: PurePosixPath
    commit: str

    may_replace = False  # somebody may have changed it by hand

    def final(self, file: RepositoryFile) -> PurePosixPath:
        return self.top / file.name

    def part(self, file: RepositoryFile) -> PurePosixPath:
        short = hashlib.sha256(file.name.encode()).hexdigest()[:12]
        return self._aside / f"{short}.{file.etag}.incomplete"

    def lock(self, file: RepositoryFile) -> PurePosixPath:
        return self._aside / f"{file.name}.lock"

    def settle(self, file: RepositoryFile) -> None:
        """As `hf download` notes it, so that it finds nothing to do here."""
        note = self._aside / f"{file.name}.metadata"
        make_room_for(note, self)
        self.files.write(note, f"{self.commit}\n{file.etag}\n{time.time()}\n".encode())

    def finish(self) -> None:
        """Nothing stands for it but itself."""

    @property
    def _aside(self) -> PurePosixPath:
        return self.top / ".cache" / "huggingface" / "download"


def find_places(job: DownloadSpec) -> Places:
    files = job.files_of_box()
    if job.layout == "cache":
        return HubCache(files, PurePosixPath(job.folder), job.repository, job.commit, job.revision)
    return Folder(files, PurePosixPath(job.folder), job.commit)


def make_room_for(path: PurePosixPath, places: Places) -> None:
    """The folder of a file to be. Raises FetchError where a link leads out of the model's own."""
    try:
        places.files.make_folder(path.parent)
    except RefusedFileError as error:
        raise describe_refusal(error, places) from error


def describe_refusal(error: RefusedFileError, places: Places) -> FetchError:
    """What to tell of a link, a pipe or a device where a download would write."""
    return FetchError(
        f"{error.filename} leads out of {places.top}, or is no file to write: somebody has put a "
        f"link there, or something else ({error.because}).",
        "Look what it is and remove it, or choose another folder.",
    )


def size_at(path: PurePosixPath, places: Places) -> int | None:
    """Bytes of a file; None where there is none."""
    try:
        return places.files.file(path, is_text=True).st_size
    except OSError:
        return None


def is_taken(path: PurePosixPath, places: Places) -> bool:
    """Whether anything at all has the name."""
    try:
        places.files.look_at(path)
    except FileNotFoundError:
        return False
    return True


def count_present(file: RepositoryFile, places: Places) -> int:
    """How many of its bytes lie there already."""
    if size_at(places.final(file), places) == file.size:
        return file.size
    part = size_at(places.part(file), places) or 0
    return part if part <= file.size else 0


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

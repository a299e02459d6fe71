"""Destinations of a download: a Hugging Face cache, or a plain folder.

Rules: the layouts of huggingface_hub (models--org--name/{blobs,refs,snapshots}, and the folder
.cache/huggingface/download of `hf download --local-dir`), its locks among them, so that an engine
that downloads the same file waits, or is waited for.
"""

import hashlib
import time
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from servers.host.files.box_files import BoxFiles, RefusedFileError
from servers.host.weights.fetch.job import FetchError, Job, RepositoryFile


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


def find_places(job: Job) -> Places:
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

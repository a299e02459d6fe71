"""Where the files of a download go: a Hugging Face cache, or a plain folder.

Rules: the layouts of huggingface_hub (models--org--name/{blobs,refs,snapshots}, and the folder
.cache/huggingface/download of `hf download --local-dir`), its locks among them, so that an engine
that downloads the same file waits, or is waited for.
"""

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from servers.host.fetch.job import FetchError, File, Job


class Places(Protocol):
    @property
    def top(self) -> Path: ...
    def final(self, file: File) -> Path: ...
    def part(self, file: File) -> Path: ...
    def lock(self, file: File) -> Path: ...
    def settle(self, file: File) -> None:
        """Once it is whole and in its place."""

    def finish(self) -> None:
        """Once all are."""

    @property
    def may_replace(self) -> bool:
        """Whether a file of the right name with other content is only a broken one."""


@dataclass(frozen=True)
class Cache:
    hub: Path
    repository: str
    commit: str
    revision: str

    may_replace = True  # its name is its hash

    @property
    def top(self) -> Path:
        return self.hub / ("models--" + self.repository.replace("/", "--"))

    def final(self, file: File) -> Path:
        return self.top / "blobs" / file.etag

    def part(self, file: File) -> Path:
        return self.top / "blobs" / f"{file.etag}.incomplete"

    def lock(self, file: File) -> Path:
        return self.hub / ".locks" / self.top.name / f"{file.etag}.lock"

    def settle(self, file: File) -> None:
        link = self.top / "snapshots" / self.commit / file.name
        target = os.path.relpath(self.final(file), link.parent)
        if link.is_symlink() and os.readlink(link) == target:  # noqa: PTH115 - as it is written
            return
        link.parent.mkdir(parents=True, exist_ok=True)
        draft = link.with_name(f".{link.name[:100]}.{os.getpid()}")
        draft.unlink(missing_ok=True)
        draft.symlink_to(target)
        draft.replace(link)

    def finish(self) -> None:
        """Only now does the branch stand for what was downloaded: until then for what was there."""
        if self.revision == self.commit:
            return
        ref = self.top / "refs" / self.revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        draft = ref.with_name(f".{ref.name}.{os.getpid()}")
        draft.write_text(self.commit)
        draft.replace(ref)


@dataclass(frozen=True)
class Folder:
    top: Path
    commit: str

    may_replace = False  # somebody may have changed it by hand

    def final(self, file: File) -> Path:
        return self.top / file.name

    def part(self, file: File) -> Path:
        short = hashlib.sha256(file.name.encode()).hexdigest()[:12]
        return self._aside / f"{short}.{file.etag}.incomplete"

    def lock(self, file: File) -> Path:
        return self._aside / f"{file.name}.lock"

    def settle(self, file: File) -> None:
        """As `hf download` notes it, so that it finds nothing to do here."""
        note = self._aside / f"{file.name}.metadata"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{self.commit}\n{file.etag}\n{time.time()}\n")

    def finish(self) -> None:
        """Nothing stands for it but itself."""

    @property
    def _aside(self) -> Path:
        return self.top / ".cache" / "huggingface" / "download"


def of(job: Job) -> Places:
    if job.layout == "cache":
        return Cache(Path(job.folder), job.repository, job.commit, job.revision)
    return Folder(Path(job.folder), job.commit)


def make_room_for(path: Path, places: Places) -> None:
    """The folder of a file to be. Raises FetchError where a link leads out of the model's own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    top = places.top.parent if isinstance(places, Cache) else places.top
    if not path.parent.resolve().is_relative_to(top.resolve()):
        raise FetchError(
            f"{path.parent} leads out of {places.top}: somebody has put a link there.",
            "Remove the link, or choose another folder.",
        )


def size_at(path: Path) -> int | None:
    """Bytes of a file; None where there is none."""
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def there(file: File, places: Places) -> int:
    """How many of its bytes lie there already."""
    if size_at(places.final(file)) == file.size:
        return file.size
    part = size_at(places.part(file)) or 0
    return part if part <= file.size else 0

"""What is to be downloaded, as it is handed to the child process and told by it."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, Self

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
class File:
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
    def checked(cls, said: Mapping[str, Any]) -> Self:
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
class Job:
    """`files` is () until the Hub has been asked; then `commit` is known, too.

    `folder` is as this process sees it: of the layout "cache" the folder with models--… in it.
    `others` are folders in which other downloads still need so many bytes. `verified` are size and
    time (ns) of files that were looked through already. `limit` is bytes a second, 0: none.
    """

    endpoint: str
    repository: str
    revision: str
    folder: str
    layout: Layout
    shown: str  # the same folder as people know it
    commit: str = ""
    patterns: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    verified: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    others: tuple[tuple[str, int], ...] = ()
    limit: int = 0
    streams: int = 4
    patience: float = 900.0  # seconds without a byte until it is given up
    token: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Raises FetchError as File.checked does."""
        given = dict(said)
        given["files"] = tuple(File.checked(each) for each in said["files"])
        given["patterns"] = tuple(said["patterns"])
        given["others"] = tuple((str(where), int(size)) for where, size in said["others"])
        given["verified"] = {
            name: (int(size), int(at)) for name, (size, at) in said["verified"].items()
        }
        return cls(**given)

"""A download job, as the parent hands it to the child process."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self

from servers.host.files.box_files import BoxFiles

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
class Job:
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

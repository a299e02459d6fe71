"""Lookups in files of the box: what is at a path, where else something of that name is, and digests."""

import hashlib
import os
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO, Literal

from servers.host.files import paths
from servers.host.files.box_files import BoxFiles, RefusedFileError

type Lies = Literal["there", "missing", "hidden"]

MOST_FOUND = 3
# A home folder may hold millions of files, and somebody is waiting for the answer.
MOST_ENTRIES = 50_000
DEEPEST = 4


@dataclass(frozen=True, kw_only=True)
class PathLookup:
    lies: Lies  # hidden: this process may not look
    elsewhere: tuple[str, ...] = ()  # of a missing one: paths that end in the same name


def look(path: str, roots: Iterable[str], files: BoxFiles, *, seconds: float = 1.5) -> PathLookup:
    """Whether a path of the box leads to something, and if not, where its name is found.

    `roots` are the folders to search. The search ends after `seconds`, so nothing found does not
    mean that nothing is there.
    """
    is_there = paths.exists(path, root=files.root)
    if is_there:
        return PathLookup(lies="there")
    if is_there is None:
        return PathLookup(lies="hidden")
    wanted = PurePosixPath(path).name.casefold()
    until = time.monotonic() + seconds
    found: list[str] = []
    for each in _walk_levels(roots, files, until):
        if each.name.casefold() == wanted:
            found.append(str(each))
            if len(found) == MOST_FOUND:
                break
    return PathLookup(lies="missing", elsewhere=tuple(found))


def _walk_levels(roots: Iterable[str], files: BoxFiles, until: float) -> Iterator[PurePosixPath]:
    """Level by level: what is near the top is what people mean. Links are not followed."""
    todo = deque((each, 1) for each in _resolve_roots(roots, files))
    left = MOST_ENTRIES
    while todo and left > 0 and time.monotonic() < until:
        folder, depth = todo.popleft()
        try:
            inside = files.entries(folder, left)
        except OSError:
            continue  # it may not be read, or is gone: nothing is found there
        left -= inside.looked
        for name, seen in inside.found:
            yield folder / name
            is_deeper = depth < DEEPEST and not name.startswith(".")
            if is_deeper and stat.S_ISDIR(seen.st_mode):
                todo.append((folder / name, depth + 1))


def _resolve_roots(roots: Iterable[str], files: BoxFiles) -> Iterator[PurePosixPath]:
    for each in dict.fromkeys(roots):
        try:
            yield paths.resolve(each, root=files.root)
        except paths.PathError:
            continue


LARGEST = 256 * 2**20  # bytes: a template, a graph or a folder of patches, no weights
MOST_FILES = 10_000
_BLOCK = 1 << 20


class DigestError(Exception):
    """A file that cannot be read, with a sentence for a person."""


def sha256(path: PurePosixPath, files: BoxFiles) -> str:
    """64 hexadecimal digits of a file, or of what sha256sum prints of a folder's files.

    Of a folder: `find . -type f | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum` in it.
    `path` leads through no link. Raises DigestError for what cannot be read, or is larger than
    files of a profile are.
    """
    try:
        said = files.look_at(path)
        if stat.S_ISDIR(said.st_mode):
            return _of_folder(path, files)
        if not stat.S_ISREG(said.st_mode):
            raise DigestError("It is not a file.")
        if said.st_size > LARGEST:
            raise DigestError(f"It is larger than {LARGEST // 2**20} MiB.")
        return _of_file(path, files)
    except FileNotFoundError:
        raise DigestError("It is not there.") from None
    except RefusedFileError as error:
        raise DigestError(f"It is {error.because}.") from error
    except OSError as error:
        raise DigestError(f"It cannot be read ({error.strerror}).") from error


def _of_file(path: PurePosixPath, files: BoxFiles) -> str:
    with files.open_file(path) as file:
        return _count_bytes(file)


def _count_bytes(file: BinaryIO) -> str:
    """It may have grown since somebody has looked."""
    digest, left = hashlib.sha256(), LARGEST
    while block := file.read(_BLOCK):
        left -= len(block)
        if left < 0:
            raise DigestError(f"It is larger than {LARGEST // 2**20} MiB.")
        digest.update(block)
    return digest.hexdigest()


def _of_folder(folder: PurePosixPath, files: BoxFiles) -> str:
    """Raises OSError, too."""
    found: list[tuple[bytes, PurePosixPath]] = []
    size = 0
    for path, seen in files.iterate_files(folder, MOST_FILES):
        if stat.S_ISREG(seen.st_mode):  # a link is not followed: it may lead anywhere
            found.append((os.fsencode(f"./{path.relative_to(folder)}"), path))
            size += seen.st_size
        if size > LARGEST:
            raise DigestError(f"It holds more than {LARGEST // 2**20} MiB or {MOST_FILES} files.")
    listed = hashlib.sha256()
    for name, path in sorted(found):
        listed.update(_of_file(path, files).encode() + b"  " + name + b"\n")
    return listed.hexdigest()

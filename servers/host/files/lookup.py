"""Paths of the box: what is there, and where else something of that name is."""

import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from servers.host.files import paths
from servers.host.files.box_files import BoxFiles

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

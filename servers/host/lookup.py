"""What lies at a path of the box, and where else something of the same name lies."""

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from servers.host import paths

type Lies = Literal["there", "missing", "hidden"]

MOST_FOUND = 3
# A home folder may hold millions of files, and somebody is waiting for the answer.
MOST_ENTRIES = 50_000
DEEPEST = 4


@dataclass(frozen=True, kw_only=True)
class Found:
    lies: Lies  # hidden: this process may not look
    elsewhere: tuple[str, ...] = ()  # of a missing one: paths that end in the same name


def look(path: str, roots: Iterable[str], *, root: Path = Path("/"), seconds: float = 1.5) -> Found:
    """Whether a path of the box leads to something, and if not, where its name is found.

    `roots` are the folders to search, `root` is where this process sees the box's "/". The
    search ends after `seconds`, so nothing found does not mean that nothing is there.
    """
    is_there = paths.exists(path, root=root)
    if is_there:
        return Found(lies="there")
    if is_there is None:
        return Found(lies="hidden")
    wanted = PurePosixPath(path).name.casefold()
    until = time.monotonic() + seconds
    found: list[str] = []
    for entry in _entries(roots, root, until):
        if entry.name.casefold() == wanted:
            found.append("/" + os.path.relpath(entry.path, root))
            if len(found) == MOST_FOUND:
                break
    return Found(lies="missing", elsewhere=tuple(found))


def _entries(roots: Iterable[str], root: Path, until: float) -> Iterator["os.DirEntry[str]"]:
    """Level by level: what is near the top is what people mean. Links are not followed."""
    todo = deque((root / each.lstrip("/"), 1) for each in dict.fromkeys(roots))
    left = MOST_ENTRIES
    while todo and time.monotonic() < until:
        folder, depth = todo.popleft()
        try:
            with os.scandir(folder) as inside:
                for entry in inside:
                    left -= 1
                    if left < 0:
                        return
                    yield entry
                    is_deeper = depth < DEEPEST and not entry.name.startswith(".")
                    if is_deeper and entry.is_dir(follow_symlinks=False):
                        todo.append((Path(entry.path), depth + 1))
        except OSError:
            continue  # it may not be read, or is gone: nothing is found there

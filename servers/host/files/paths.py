"""Paths of the box and its table of mounts, also where inferdash runs in a container; drafts."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

MAX_LINKS = 40  # as in the kernel


class PathError(Exception):
    """A path that cannot be followed; the text says which and why."""


class HiddenPathError(PathError):
    """This process may not look into a folder on the way, so that a link there stays unseen."""


def resolve(path: str, *, root: Path = Path("/")) -> PurePosixPath:
    """The path on the box with every symbolic link followed, as its kernel would.

    `root` is where this process sees the box's "/". A link that is absolute leads below
    `root` again, which os.path.realpath does not know. What does not exist is kept as it
    is. Raises PathError for a loop of links, HiddenPathError where this process may not
    look: Docker may, and would follow a link there. Rule: path_resolution(7).
    """
    todo = _names(path)
    done = PurePosixPath("/")
    followed = 0
    while todo:
        part = todo.pop()
        if part == "..":
            done = done.parent
            continue
        here = done / part
        try:
            target = _resolve_visible(here, root).readlink()
        except PermissionError as error:
            raise HiddenPathError(
                f"inferdash may not look into {done}, so it cannot tell where {path} leads. Allow "
                f"its user to pass through that folder, for example with: chmod o+x {done}"
            ) from error
        except OSError:
            # Not a link, or not there.
            done = here
            continue
        followed += 1
        if followed > MAX_LINKS:
            raise PathError(f"{path} leads through a loop of symbolic links.")
        pure = PurePosixPath(target)
        if pure.is_absolute():
            done = PurePosixPath("/")
        todo += _names(target)
    return done


def follow_links(path: str, *, root: Path = Path("/")) -> PurePosixPath:
    """As resolve(), but a path that leads through a folder which this process may not look into,
    such as a person's home that is shut to a service, is kept as it is written. Raises PathError
    for a loop of links."""
    try:
        return resolve(path, root=root)
    except HiddenPathError:
        return PurePosixPath(path)


def exists(path: str, *, root: Path = Path("/")) -> bool | None:
    """Whether the path leads to something; None when this process may not look."""
    try:
        _resolve_visible(resolve(path, root=root), root).lstat()
    except (PermissionError, HiddenPathError):
        return None
    except (FileNotFoundError, NotADirectoryError, PathError):
        return False
    return True


def _names(path: str | Path) -> list[str]:
    """The last one first. Two slashes in front are a root of their own to pathlib."""
    return [part for part in PurePosixPath(path).parts if part.strip("/")][::-1]


def _resolve_visible(path: PurePosixPath, root: Path) -> Path:
    return root / path.relative_to("/")


def is_text(name: str) -> bool:
    """Whether its bytes are UTF-8: whatever else a disk has can be neither shown nor kept."""
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def format_path(path: Path) -> str:
    """A path in letters that can be shown and kept; where its bytes are no text it is another."""
    return str(path).encode(errors="replace").decode()


_ESCAPED = re.compile(r"\\([0-7]{3})")
# Whose server may be gone: whoever looks at a file there then waits for ever.
_REMOTE = re.compile(r"nfs|cifs|smb|fuse|ceph|9p|lustre|gluster|beegfs|afs|gpfs|virtiofs")


@dataclass(frozen=True, kw_only=True)
class MountPoint:
    path: str
    options: frozenset[str]
    kind: str  # ext4, nfs4, …


def read_mount_table(*, root: Path = Path("/")) -> list[MountPoint]:
    """Every mount below `root` with the path that the box has for it, in the kernel's order.

    Empty where the kernel does not tell. Rule: proc_pid_mountinfo(5).
    """
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        before, _dash, after = line.partition(" - ")
        columns = before.split(" ")
        seen = PurePosixPath(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), columns[4]))
        if seen.is_relative_to(root):
            path = str(PurePosixPath("/") / seen.relative_to(root))
            options = frozenset(columns[5].split(","))
            found.append(MountPoint(path=path, options=options, kind=after.partition(" ")[0]))
    return found


def find_mount(path: str, mounts: list[MountPoint]) -> MountPoint | None:
    """The mount that a path of the box lies on; None where none is known."""
    inside = f"{PurePosixPath(path)}/"
    # A box of many containers has hundreds: letters compare sooner than paths.
    holding = [each for each in mounts if inside.startswith(f"{each.path.rstrip('/')}/")]
    # Of two on one folder the later one hides the other.
    return (
        max(enumerate(holding), key=lambda each: (len(each[1].path), each[0]))[1]
        if holding
        else None
    )


def real_place(path: str, mounts: list[MountPoint], *, root: Path = Path("/")) -> str:
    """Where a path leads; "" where there is nothing. On a disk of the network it is not looked for."""
    found = find_mount(path, mounts)
    if found is not None and _REMOTE.search(found.kind):
        return path
    if exists(path, root=root) is False:
        return ""
    try:
        return str(resolve(path, root=root))
    except PathError:
        return path


MOST_ENTRIES = 50_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def remove_stale(folder: int, name: str) -> None:
    """That of this name, and those of the same file whose processes were killed meanwhile.

    `folder` is an open one, also by O_PATH. `name` ends with this process's number.
    """
    stem, _dot, own = name.rpartition(".")
    opened = os.open(".", _FOLDER, dir_fd=folder)
    try:
        with os.scandir(opened) as entries:
            others = [each.name for each in islice(entries, MOST_ENTRIES)]
    finally:
        os.close(opened)
    for other in others:
        found, _dot, pid = other.rpartition(".")
        if found == stem and (pid == own or (pid.isdecimal() and not _is_running(int(pid)))):
            with suppress(FileNotFoundError):
                os.unlink(other, dir_fd=folder)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True

"""Paths of the box, also where inferdash itself runs in a container and sees it under a folder."""

from pathlib import Path, PurePosixPath

MAX_LINKS = 40  # as in the kernel


class PathError(Exception):
    """A path that cannot be followed; the text says which and why."""


def resolve(path: str, *, root: Path = Path("/")) -> PurePosixPath:
    """The path on the box with every symbolic link followed, as its kernel would.

    `root` is where this process sees the box's "/". A link that is absolute leads below
    `root` again, which os.path.realpath does not know. What does not exist is kept as it
    is. Raises PathError for a loop of links. Rule: path_resolution(7).
    """
    todo = [part for part in PurePosixPath(path).parts if part != "/"][::-1]
    done = PurePosixPath("/")
    followed = 0
    while todo:
        part = todo.pop()
        if part == "..":
            done = done.parent
            continue
        here = done / part
        try:
            target = _seen(here, root).readlink()
        except OSError:
            # Not a link, not there, or not ours to look into.
            done = here
            continue
        followed += 1
        if followed > MAX_LINKS:
            raise PathError(f"{path} leads through a loop of symbolic links.")
        pure = PurePosixPath(target)
        if pure.is_absolute():
            done = PurePosixPath("/")
        todo += [each for each in pure.parts if each != "/"][::-1]
    return done


def exists(path: str, *, root: Path = Path("/")) -> bool | None:
    """Whether the path leads to something; None when this process may not look."""
    try:
        _seen(resolve(path, root=root), root).lstat()
    except PermissionError:
        return None
    except (FileNotFoundError, NotADirectoryError, PathError):
        return False
    return True


def _seen(path: PurePosixPath, root: Path) -> Path:
    return root / path.relative_to("/")

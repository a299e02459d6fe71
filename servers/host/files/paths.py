"""Paths of the box, also where inferdash itself runs in a container and sees it under a folder."""

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

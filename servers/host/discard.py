"""Deletes a model from the box's disks: what that takes away is worked out first, and said."""

import errno
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from servers.host import paths, stored
from servers.host.shm import is_stuck

MOST_ENTRIES = 20_000  # a model has hundreds; more is somebody's home
_NOT_MINE = (errno.EACCES, errno.EPERM, errno.EROFS)
_BLOCK = 512  # bytes, whatever the file system's own block is
_BLOB = re.compile(r"(?:\.\./)+blobs/(?P<name>[^/.][^/]*)")


class DiscardError(Exception):
    """A model is not deleted; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What goes, as paths of the box below `top`: files and links one by one, folders as a whole.

    `freed` are bytes that the disk gets back, `kept` those of files that something else still
    holds: another revision of the same repository, or a hard link elsewhere.
    """

    top: str
    files: tuple[str, ...]
    trees: tuple[str, ...]
    count: int  # files in all
    freed: int
    kept: int

    @property
    def all(self) -> tuple[str, ...]:
        return self.files + self.trees


def plan(path: str, *, root: Path = Path("/")) -> Plan:
    """What a model at this path of the box consists of. Changes nothing.

    `path` is as host.stored.Checkpoint has it. Raises DiscardError where it is not there, a link
    leads to it, or more lies in it than a model has.
    """
    pure = PurePosixPath(path)
    try:
        # The last step may be a link: files of a cache are.
        real = paths.resolve(str(pure.parent), root=root) / pure.name
    except paths.PathError as error:
        raise DiscardError(str(error)) from error
    if real != pure or pure == PurePosixPath("/") or len(pure.parts) < 3:
        raise DiscardError(f"{path} leads to {real} by now: nothing is deleted over a link.")
    here = root / pure.relative_to("/")
    try:
        seen = here.lstat()
        repository = _repository(pure)
        if stat.S_ISLNK(seen.st_mode) and repository is None:
            raise DiscardError(f"{path} is a link by now: nothing is deleted over a link.")
        if not stat.S_ISDIR(seen.st_mode):
            return _of_gguf(here, repository, root)
        if repository is None or repository == pure:
            return _of_trees([here], root)
        return _of_snapshot(here, root / repository.relative_to("/"), root)
    except FileNotFoundError:
        raise DiscardError(f"{path} is not there any more.") from None
    except OSError as error:
        raise DiscardError(f"{error.filename or path}: {error.strerror}.") from error


def carry_out(made: Plan, *, root: Path = Path("/")) -> None:
    """Delete it. No link is followed on the way, not even one that was put there a moment ago.

    Raises DiscardError where the kernel refuses; what was deleted until then stays deleted, and
    planning it again finds the rest.
    """
    for each in made.all:
        pure = PurePosixPath(each)
        try:
            with _folder(root, pure.parent) as parent:
                if each in made.files:
                    os.unlink(pure.name, dir_fd=parent)  # noqa: PTH108 - below an open folder
                else:
                    shutil.rmtree(pure.name, dir_fd=parent)
        except FileNotFoundError:
            continue  # somebody was faster
        except OSError as error:
            name = error.filename or each
            by_hand = f" By hand: sudo rm -r {each}" if error.errno in _NOT_MINE else ""
            raise DiscardError(
                f"{name} cannot be deleted: {error.strerror}. What went before is gone.{by_hand}"
            ) from error


def users(made: Plan, *, root: Path = Path("/"), proc: Path = Path("/proc")) -> list[str]:
    """Processes that have a file of it open or mapped, as far as they can be seen."""
    wanted = set()
    for path in _files(made, root):
        with suppress(OSError):
            seen = path.stat()
            wanted.add((seen.st_dev, seen.st_ino))
    found = []
    for process in proc.glob("[0-9]*"):
        try:
            if not is_stuck(process) and wanted & _held(process):
                name = (process / "comm").read_text(errors="replace").strip()
                found.append(f"{name} (process {process.name})")
        except OSError:
            continue  # it has ended, or belongs to somebody else
    return sorted(found)


def _held(process: Path) -> set[tuple[int, int]]:
    """Device and inode of the files that a process maps or has open."""
    held = set()
    with (process / "maps").open(errors="replace") as maps:
        for line in maps:
            _span, _may, _at, device, inode, *_name = line.split(maxsplit=5)
            if inode != "0":
                major, minor = device.split(":")
                held.add((os.makedev(int(major, 16), int(minor, 16)), int(inode)))
    for each in (process / "fd").iterdir():
        with suppress(OSError):
            seen = each.stat()
            held.add((seen.st_dev, seen.st_ino))
    return held


def _repository(path: PurePosixPath) -> PurePosixPath | None:
    """The models--… folder of a Hugging Face cache that a path lies in; None outside of one."""
    for each in (path, *path.parents):
        if each.name.startswith("models--"):
            return each
    return None


def _of_snapshot(snapshot: Path, repository: Path, root: Path) -> Plan:
    others = [each for each in _subfolders(repository / "snapshots") if each != snapshot]
    if not others:
        locks = repository.parent / ".locks" / repository.name
        return _of_trees([repository, *([locks] if locks.is_dir() else [])], root)
    mine = dict(_links(snapshot))
    theirs = {blob for each in others for _link, blob in _links(each) if blob}
    return _partly(repository, mine, theirs, [snapshot], root, commit=snapshot.name)


def _of_gguf(first: Path, repository: PurePosixPath | None, root: Path) -> Plan:
    """A file with its other parts; the whole snapshot where nothing else in it is a model."""
    parts = _parts(first)
    if repository is None:
        return _made(first.parent, parts, [], root)
    top = root / repository.relative_to("/")
    snapshot = next(each for each in first.parents if each.parent.name == "snapshots")
    links = dict(_links(snapshot))
    if not any(_is_model(link) and link not in parts for link in links):
        return _of_snapshot(snapshot, top, root)
    mine = {link: links[link] for link in parts if link in links}
    theirs = {
        blob
        for each in _subfolders(top / "snapshots")
        for link, blob in _links(each)
        if blob and link not in mine
    }
    return _partly(top, mine, theirs, [], root)


def _is_model(link: Path) -> bool:
    file = stored.file_at(link, link.parent)
    return file is not None and stored.is_weights(file)


def _parts(first: Path) -> list[Path]:
    split = stored.PART.fullmatch(first.name)
    if split is None:
        return [first]
    others = (stored.PART.fullmatch(each.name) for each in first.parent.iterdir())
    same = ("name", "count", "end")
    return sorted(
        first.parent / each.string
        for each in others
        if each is not None and all(each[name] == split[name] for name in same)
    )


def _partly(
    repository: Path,
    mine: dict[Path, str],
    theirs: set[str],
    trees: list[Path],
    root: Path,
    *,
    commit: str = "",
) -> Plan:
    """Some of a repository's files: blobs that other revisions use stay."""
    blobs = repository / "blobs"
    refs = [each for each in _refs(repository / "refs") if commit and _says(each, commit)]
    gone = [blobs / name for name in sorted(set(mine.values()) - theirs) if name]
    shared = [blobs / name for name in set(mine.values()) & theirs if name]
    links = [] if trees else list(mine)
    kept = sum(_size(each) for each in shared)
    # First what leads to it, then the files, then the links: whatever is cut off in the middle
    # is still found, and can be deleted again.
    return _made(repository, [*refs, *gone, *links], trees, root, kept=kept)


def _of_trees(trees: list[Path], root: Path) -> Plan:
    return _made(trees[0], [], trees, root)


def _made(top: Path, files: list[Path], trees: list[Path], root: Path, *, kept: int = 0) -> Plan:
    there = [each for each in files if _exists(each)]
    everything = [*there, *(each for tree in trees for each in _walk(tree))]
    held = [seen for each in everything if stat.S_ISREG((seen := each.lstat()).st_mode)]
    names = Counter((seen.st_dev, seen.st_ino) for seen in held)
    sizes = {(seen.st_dev, seen.st_ino): seen for seen in held}
    freed = elsewhere = 0
    for key, seen in sizes.items():
        if seen.st_nlink > names[key]:
            elsewhere += seen.st_blocks * _BLOCK
        else:
            freed += seen.st_blocks * _BLOCK
    return Plan(
        top=_on_box(top, root),
        files=tuple(_on_box(each, root) for each in there),
        trees=tuple(_on_box(each, root) for each in trees),
        count=len(sizes),
        freed=freed,
        kept=kept + elsewhere,
    )


def _walk(tree: Path) -> Iterator[Path]:
    """Everything but folders. Raises DiscardError where it is more than a model."""
    device, count = tree.lstat().st_dev, 0
    for folder, folders, names in os.walk(tree, onerror=_unreadable):
        if Path(folder).lstat().st_dev != device:
            raise DiscardError(f"Another disk is mounted at {folder}: unmount it first.")
        for name in [*names, *(each for each in folders if (Path(folder) / each).is_symlink())]:
            count += 1
            if count > MOST_ENTRIES:
                raise DiscardError(
                    f"{tree} holds more than {MOST_ENTRIES} files, which is no model. Delete what "
                    "is to go by hand."
                )
            yield Path(folder) / name


def _unreadable(error: OSError) -> None:
    raise error


def _links(snapshot: Path) -> Iterator[tuple[Path, str]]:
    """The files of a snapshot, with the names of their blobs; "" for one that is no link."""
    for each in _walk(snapshot):
        target = os.readlink(each) if each.is_symlink() else ""  # noqa: PTH115 - as it is written
        found = _BLOB.fullmatch(target)
        yield each, found["name"] if found else ""


def _refs(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()] if folder.is_dir() else []


def _says(ref: Path, commit: str) -> bool:
    try:
        return ref.read_text().strip() == commit
    except (OSError, ValueError):
        return False


def _subfolders(folder: Path) -> list[Path]:
    return [each for each in folder.iterdir() if each.is_dir() and not each.is_symlink()]


def _files(made: Plan, root: Path) -> Iterator[Path]:
    for each in made.files:
        yield root / each.lstrip("/")
    for each in made.trees:
        with suppress(OSError, DiscardError):
            yield from _walk(root / each.lstrip("/"))


def _size(path: Path) -> int:
    try:
        return path.lstat().st_blocks * _BLOCK
    except OSError:
        return 0


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def _on_box(path: Path, root: Path) -> str:
    return "/" + str(path.relative_to(root)).removeprefix(".").lstrip("/")


@contextmanager
def _folder(root: Path, path: PurePosixPath) -> Iterator[int]:
    """A folder of the box, opened from the root on without following a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    handle = os.open(root, flags)
    try:
        for part in path.parts[1:]:
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)

"""The one door to files of the box that others may have made: models, caches, what is mounted.

An engine's container may be root in those folders, so that any name in them may turn into a link, a
pipe or a device between two looks. Each step is therefore taken from an open folder, follows no
link and waits for nothing; what is opened is looked at again once it is open. Where a link may be
followed it is followed on paper, and its end is walked to like any other path.
Rules: open(2), openat(2), path_resolution(7).
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO, Self

from servers.host.files import paths

MOST_ENTRIES = 50_000  # of one folder
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_DEEPEST = 32
_DEEPEST_REMOVED = 200  # with what names that are no text hide
_NAMED = 100  # characters of a name that a draft beside it keeps

LINK = "a link; not read"
OUTSIDE = "a link to outside; not read"
NO_FILE = "no regular file; not read"
NOT_ITS_OWNERS = "another owner’s file under a second name; not read"


class RefusedFileError(OSError):
    """A file that is not touched for what it is; `because` is what people read after its name."""

    def __init__(self, because: str, path: PurePath, number: int = errno.EPERM) -> None:
        super().__init__(number, because, str(path))
        self.because = because


def because(error: OSError) -> str:
    """What people read after the name of a file that was not read."""
    if isinstance(error, RefusedFileError):
        return error.because
    return f"cannot be read: {error.strerror or error}"


class OtherDiskError(OSError):
    """Another disk is mounted below a folder."""


@dataclass(frozen=True, kw_only=True)
class Entries:
    """What a folder holds, by name, each as lstat says; names that are no UTF-8 are left out."""

    found: tuple[tuple[str, os.stat_result], ...]
    is_cut: bool  # there is more than was asked for
    looked: int  # at how many names


@dataclass(frozen=True, kw_only=True)
class DiskRoom:
    """Of a folder that is to be, by the first that is there of those above it."""

    path: PurePosixPath
    free: int  # bytes that this user may write
    device: int  # of the kernel's; folders on one file system have the same
    may_write: bool
    is_read_only: bool  # the disk itself


@dataclass(frozen=True, kw_only=True)
class BoxFiles:
    """The files of the box below some of its folders, and none of its own.

    `root` is where this process sees the box's "/". `below` and `own` are paths of the box without
    a link. All paths are the box's, absolute, and lead through no link; whatever else comes raises
    an OSError: RefusedFileError for what is none of ours or is not what it should be.
    """

    below: tuple[PurePosixPath, ...]
    own: tuple[PurePosixPath, ...] = ()
    root: Path = field(default=Path("/"))

    @classmethod
    def from_text(
        cls, below: Iterable[str], own: Iterable[str] = (), *, root: Path = Path("/")
    ) -> Self:
        """Folders as somebody has written them, each followed once.

        One of `below` that cannot be followed is left out. One of `own` in a folder that this
        process may not look into is kept as it is written: nothing in there can be read either.
        Raises paths.PathError for another one of `own`: what it is cannot be kept apart.
        """
        kept = tuple(paths.follow_links(each, root=root) for each in own)
        found = []
        for each in below:
            with suppress(paths.PathError):
                found.append(paths.resolve(each, root=root))
        return cls(below=tuple(found), own=kept, root=root)

    def admits(self, path: PurePosixPath) -> bool:
        """Whether a path lies below one of the folders, and in nothing of inferdash's own."""
        if not path.is_absolute() or ".." in path.parts:
            return False
        return any(path.is_relative_to(each) for each in self.below) and not any(
            path.is_relative_to(each) for each in self.own
        )

    # Looking.

    def entries(self, path: PurePosixPath, most: int = MOST_ENTRIES) -> Entries:
        """What lies in a folder, the names in order."""
        found: list[tuple[str, os.stat_result]] = []
        looked, is_cut = 0, False
        with self.folder(path) as handle, os.scandir(handle) as inside:
            for each in inside:
                if looked >= most:
                    is_cut = True
                    break
                looked += 1
                if not paths.is_text(each.name):
                    continue
                with suppress(FileNotFoundError):  # gone meanwhile
                    found.append((each.name, each.stat(follow_symlinks=False)))
        found.sort(key=lambda one: one[0])
        return Entries(found=tuple(found), is_cut=is_cut, looked=looked)

    def iterate_files(
        self, top: PurePosixPath, most: int, *, of_device: int | None = None
    ) -> Iterator[tuple[PurePosixPath, os.stat_result]]:
        """Everything below a folder but folders, each as lstat says.

        Raises RefusedFileError for more than `most` or too deep, and OtherDiskError for a folder
        that is not on the disk `of_device`, as st_dev has it.
        """
        todo, left = [(top, 1)], most
        while todo:
            here, depth = todo.pop()
            inside = self.entries(here, left)
            left -= inside.looked
            if inside.is_cut:
                raise RefusedFileError(f"more than {most} files", top, errno.E2BIG)
            for name, seen in inside.found:
                path = here / name
                if not stat.S_ISDIR(seen.st_mode):
                    yield path, seen
                elif of_device not in (None, seen.st_dev):
                    raise OtherDiskError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))
                elif depth == _DEEPEST:
                    raise RefusedFileError(f"more than {_DEEPEST} folders in one another", top)
                else:
                    todo.append((path, depth + 1))

    def look_at(self, path: PurePosixPath) -> os.stat_result:
        """Of the file itself, or of a link, not of its end."""
        if path.name == "..":
            self._check(path)
        with self._way(path.parent) as folder, _name_errors(path):
            return os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)

    def is_folder(self, path: PurePosixPath) -> bool:
        """False, too, where nobody may look or a link leads there."""
        try:
            return stat.S_ISDIR(self.look_at(path).st_mode)
        except OSError:
            return False

    def target(self, path: PurePosixPath) -> str:
        with self._open_folder(path) as folder:
            return os.readlink(path.name, dir_fd=folder)

    def end(self, path: PurePosixPath, *, is_text: bool = False) -> PurePosixPath:
        """Where the file of this name lies in truth; most often where it is named.

        In a snapshot of a Hugging Face cache a link leads to the blobs of the same repository, or
        to those that all repositories of the cache share. Elsewhere it leads where `admits` says,
        and for a text nowhere: nothing reads those but people. Raises RefusedFileError, and
        FileNotFoundError where it leads to nothing. Rule: the layout of huggingface_hub's cache.
        """
        if not stat.S_ISLNK(self.look_at(path).st_mode):
            return path
        try:
            real = paths.resolve(str(path), root=self.root)
        except paths.PathError as error:
            raise RefusedFileError(OUTSIDE, path, errno.ELOOP) from error
        blobs = _blobs(path)
        is_inside = not blobs or any(real.is_relative_to(each) for each in blobs)
        if not is_inside or not self.admits(real):
            raise RefusedFileError(OUTSIDE, path, errno.ELOOP)
        if is_text and not blobs:
            raise RefusedFileError(LINK, path, errno.ELOOP)
        return real

    def file(self, path: PurePosixPath, *, is_text: bool = False) -> os.stat_result:
        """Of a regular file, at the end of a link that may be followed."""
        end = self.end(path, is_text=is_text)
        seen = self.look_at(end)
        if not stat.S_ISREG(seen.st_mode):
            raise _wrong_kind(seen, end)
        return seen

    # Reading.

    @contextmanager
    def open_file(self, path: PurePosixPath, *, is_text: bool = False) -> Iterator[BinaryIO]:
        """A regular file, to be read. It is the caller's to read no more than it means to."""
        end = self.end(path, is_text=is_text)
        with self._open_folder(end) as folder:
            handle = _regular(end, os.O_RDONLY, folder)
        with os.fdopen(handle, "rb") as opened:
            yield opened

    def read(self, path: PurePosixPath, longest: int, *, is_text: bool = False) -> bytes:
        """The whole of a small file. RefusedFileError for a longer one, and for one that somebody
        has given a second name in a folder of theirs without being its owner."""
        end = self.end(path, is_text=is_text)
        with self._open_folder(end) as folder:
            handle = _regular(end, os.O_RDONLY, folder)
            with os.fdopen(handle, "rb") as opened:
                seen = os.fstat(handle)
                if seen.st_nlink > 1 and not _is_its_owners(seen, os.stat(".", dir_fd=folder)):
                    raise RefusedFileError(NOT_ITS_OWNERS, path)
                said = opened.read(longest + 1) if seen.st_size <= longest else b""
        if seen.st_size > longest or len(said) > longest:
            raise RefusedFileError(f"longer than {_size(longest)}; not read", path, errno.EFBIG)
        return said

    # Writing.

    def nearest(self, path: PurePosixPath) -> PurePosixPath:
        """The folder itself, or of those above it the first that is there.

        Raises RefusedFileError for a link on the way, or a file where a folder should be.
        """
        for here in (path, *path.parents):
            try:
                seen = self.look_at(here)
            except FileNotFoundError:
                continue
            if not stat.S_ISDIR(seen.st_mode):
                raise _no_folder(here, seen)
            return here
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    def room(self, path: PurePosixPath) -> DiskRoom:
        """How much may be written below a folder. Raises what `nearest` does."""
        here = self.nearest(path)
        with self._way(here) as folder, _name_errors(here):
            # By the open folder: its name may lead elsewhere by now.
            said = os.statvfs(folder)
            return DiskRoom(
                path=here,
                free=said.f_bavail * said.f_frsize,
                device=os.fstat(folder).st_dev,
                may_write=os.access(".", os.W_OK | os.X_OK, dir_fd=folder),
                is_read_only=bool(said.f_flag & os.ST_RDONLY),
            )

    @contextmanager
    def folder(self, path: PurePosixPath, *, make: bool = False) -> Iterator[int]:
        """A descriptor of a folder, by which one works in it; `make` it and those above it."""
        self._check(path)
        with self._way(path, make=make) as folder:
            with _name_errors(path):
                handle = os.open(".", _FOLDER, dir_fd=folder)
            try:
                yield handle
            finally:
                os.close(handle)

    def make_folder(self, path: PurePosixPath) -> None:
        """With those above it."""
        self._check(path)
        with self._way(path, make=True):
            return

    def append_to(self, path: PurePosixPath) -> int:
        """A descriptor of a regular file to read and write, made if it is not there.

        One with a second name is somebody else's, too, and is begun anew.
        """
        flags = os.O_RDWR | os.O_CREAT
        with self._open_folder(path) as folder:
            handle = _regular(path, flags, folder)
            if os.fstat(handle).st_nlink > 1:
                os.close(handle)
                os.unlink(path.name, dir_fd=folder)
                handle = _regular(path, flags | os.O_EXCL, folder)
            return handle

    def write(self, path: PurePosixPath, content: bytes) -> None:
        """In place of whatever has the name, at once and whole."""
        with self._draft(path) as (folder, name):
            handle = os.open(
                name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=folder
            )
            with os.fdopen(handle, "wb") as opened:
                opened.write(content)

    def link(self, path: PurePosixPath, target: str) -> None:
        """A symbolic link in place of whatever has the name."""
        with self._draft(path) as (folder, name):
            os.symlink(target, name, dir_fd=folder)

    def move(self, path: PurePosixPath, to: PurePosixPath) -> None:
        """A file, in place of whatever has the other name."""
        with self._open_folder(path) as old, self._open_folder(to) as new:
            os.replace(path.name, to.name, src_dir_fd=old, dst_dir_fd=new)

    def remove(self, path: PurePosixPath) -> None:
        with self._open_folder(path) as folder:
            os.unlink(path.name, dir_fd=folder)

    def remove_empty(self, path: PurePosixPath) -> None:
        """A folder; raises OSError where something is in it."""
        with self._open_folder(path) as folder:
            os.rmdir(path.name, dir_fd=folder)

    def remove_tree(self, path: PurePosixPath) -> None:
        """A folder with everything in it. No link is followed, and nothing but folders opened."""
        with self._open_folder(path) as folder:
            _remove_tree(path, folder, depth=0)

    @contextmanager
    def _draft(self, path: PurePosixPath) -> Iterator[tuple[int, str]]:
        """A name beside it that becomes its own at the end: no reader sees half of it."""
        name = f".{path.name[:_NAMED]}.{os.getpid()}"
        with self._open_folder(path) as folder:
            paths.remove_stale(folder, name)
            try:
                yield folder, name
                os.replace(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                raise

    @contextmanager
    def _open_folder(self, path: PurePosixPath) -> Iterator[int]:
        """The folder in which a file is to be opened, or made."""
        self._check(path)
        with self._way(path.parent) as folder, _name_errors(path):
            yield folder

    def _check(self, path: PurePosixPath) -> None:
        if not self.admits(path):
            raise RefusedFileError("outside of the folders that may be looked into", path)

    @contextmanager
    def _way(self, path: PurePosixPath, *, make: bool = False) -> Iterator[int]:
        """A descriptor that one can only go on from. Only ours, and those above them."""
        if not any(each.is_relative_to(path) for each in self.below):
            self._check(path)
        handle = os.open(self.root, _STEP & ~os.O_NOFOLLOW)
        try:
            for depth, part in enumerate(path.parts[1:], 2):
                inner = _step(part, handle, PurePosixPath(*path.parts[:depth]), make=make)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)


def _remove_tree(path: PurePosixPath, folder: int, *, depth: int) -> None:
    """shutil.rmtree opens what has become a pipe since it looked, and waits there."""
    if depth > _DEEPEST_REMOVED:
        raise RefusedFileError(f"more than {_DEEPEST_REMOVED} folders in one another", path)
    with _name_errors(path):
        handle = os.open(path.name, _FOLDER, dir_fd=folder)
        try:
            with os.scandir(handle) as inside:
                found = [(each.name, each.is_dir(follow_symlinks=False)) for each in inside]
            for name, is_folder in found:
                with suppress(FileNotFoundError):  # somebody was faster
                    if is_folder:
                        _remove_tree(path / name, handle, depth=depth + 1)
                    else:
                        os.unlink(name, dir_fd=handle)
        finally:
            os.close(handle)
        os.rmdir(path.name, dir_fd=folder)


def _step(part: str, folder: int, path: PurePosixPath, *, make: bool) -> int:
    with _name_errors(path):
        if make:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
                if os.geteuid() == 0:
                    # Whoever has the folder above it is to have this one, too.
                    above = os.stat(".", dir_fd=folder)
                    os.chown(part, above.st_uid, above.st_gid, dir_fd=folder, follow_symlinks=False)
        try:
            return os.open(part, _STEP, dir_fd=folder)
        except NotADirectoryError as error:
            seen = os.stat(part, dir_fd=folder, follow_symlinks=False)
            raise _no_folder(path, seen) from error


@contextmanager
def _name_errors(path: PurePosixPath) -> Iterator[None]:
    """An error tells the whole path, not the last step to it."""
    try:
        yield
    except RefusedFileError:
        raise
    except OSError as error:
        error.filename = str(path)
        raise


def _no_folder(path: PurePosixPath, seen: os.stat_result) -> RefusedFileError:
    because = OUTSIDE if stat.S_ISLNK(seen.st_mode) else "no folder"
    return RefusedFileError(because, path, errno.ENOTDIR)


def _wrong_kind(seen: os.stat_result, path: PurePosixPath) -> OSError:
    if stat.S_ISDIR(seen.st_mode):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISLNK(seen.st_mode):
        return RefusedFileError(LINK, path, errno.ELOOP)
    return RefusedFileError(NO_FILE, path)


def _regular(path: PurePosixPath, flags: int, folder: int) -> int:
    """A descriptor of a regular file. A device is not even opened, unless it came this moment."""
    try:
        seen = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    else:
        if not stat.S_ISREG(seen.st_mode):
            raise _wrong_kind(seen, path)
    try:
        handle = os.open(path.name, flags | _FILE, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise RefusedFileError(NO_FILE, path) from error
        raise
    seen = os.fstat(handle)
    if not stat.S_ISREG(seen.st_mode):
        os.close(handle)
        raise _wrong_kind(seen, path)
    return handle


def _is_its_owners(seen: os.stat_result, folder: os.stat_result) -> bool:
    """Who may make names in a folder may have made one for a file that only its owner may read."""
    if folder.st_mode & stat.S_IWOTH:
        return False
    if folder.st_uid == 0:
        return not folder.st_mode & stat.S_IWGRP
    return folder.st_uid == seen.st_uid


def _blobs(path: PurePosixPath) -> tuple[PurePosixPath, ...]:
    """Where the links of a snapshot may lead; nowhere for what is in no Hugging Face cache."""
    for each in path.parents:
        above = each.parent.parent
        if each.parent.name == "snapshots" and above.name.startswith("models--"):
            return above / "blobs", above.parent / "blobs"
    return ()


def _size(count: int) -> str:
    for size, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count // size} {unit}"
    return f"{count} bytes"

"""Deletion of a model from disk: planned and shown first, then done."""

import errno
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from servers.host.files import paths
from servers.host.files.box_files import BoxFiles, OtherDiskError, RefusedFileError
from servers.host.kernel import resources
from servers.host.weights import checkpoints, stored

MOST_ENTRIES = 20_000  # a model has hundreds; more is somebody's home
_NOT_MINE = (errno.EACCES, errno.EPERM, errno.EROFS)
_NOTES = ".cache/huggingface/download"
_BLOCK = 512  # bytes, whatever the file system's own block is
_BLOB = re.compile(r"(?:\.\./)+blobs/(?P<name>[^/.][^/]*)")


class DiscardError(Exception):
    """A model is not deleted; the text says why."""


@dataclass(frozen=True, kw_only=True)
class DeletionPlan:
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


def plan(path: str, files: BoxFiles) -> DeletionPlan:
    """What a model at this path of the box consists of. Changes nothing.

    `path` is as host.weights.stored.Checkpoint has it. Raises DiscardError where it is not there, a link
    leads to it, or more lies in it than a model has.
    """
    pure = PurePosixPath(path)
    try:
        # The last step may be a link: files of a cache are.
        real = paths.resolve(str(pure.parent), root=files.root) / pure.name
    except paths.PathError as error:
        raise DiscardError(str(error)) from error
    if real != pure or pure == PurePosixPath("/") or len(pure.parts) < 3:
        raise DiscardError(f"{path} leads to {real} by now: nothing is deleted over a link.")
    try:
        seen = files.look_at(pure)
        repository = _repository(pure)
        if stat.S_ISLNK(seen.st_mode) and repository is None:
            raise DiscardError(f"{path} is a link by now: nothing is deleted over a link.")
        planned = _Planned(files)
        if not stat.S_ISDIR(seen.st_mode):
            return planned.of_gguf(pure, repository)
        if repository is None or repository == pure:
            return planned.of_trees([pure])
        return planned.of_snapshot(pure, repository)
    except FileNotFoundError:
        raise DiscardError(f"{path} is not there any more.") from None
    except OSError as error:
        raise DiscardError(f"{error.filename or path}: {error.strerror}.") from error


def carry_out(made: DeletionPlan, files: BoxFiles) -> None:
    """Delete it. No link is followed on the way, not even one that was put there a moment ago.

    Raises DiscardError where the kernel refuses; what was deleted until then stays deleted, and
    planning it again finds the rest.
    """
    for each in made.all:
        path = PurePosixPath(each)
        try:
            if each in made.files:
                files.remove(path)
            else:
                files.remove_tree(path)
        except FileNotFoundError:
            continue  # somebody was faster
        except OSError as error:
            name = error.filename or each
            by_hand = f" By hand: sudo rm -r {each}" if error.errno in _NOT_MINE else ""
            raise DiscardError(
                f"{name} cannot be deleted: {error.strerror}. What went before is gone.{by_hand}"
            ) from error


def tidy(made: DeletionPlan, files: BoxFiles, *, below: Iterable[str]) -> None:
    """What a deleted model leaves behind for nobody: notes of `hf download` on its files, and empty
    folders above it, up to those that are looked into (`below`). What cannot be removed stays."""
    roots = [PurePosixPath(each) for each in below]
    if _repository(PurePosixPath(made.top)) is not None:
        return  # a cache keeps its own order
    for each in map(PurePosixPath, made.files):
        for top in _inside(each.parent, roots):
            aside = top / _NOTES / each.relative_to(top)
            for suffix in (".metadata", ".lock"):
                with suppress(OSError):
                    files.remove(aside.with_name(aside.name + suffix))
            _remove_empty(aside.parent, [top], files)
    _remove_empty(PurePosixPath(made.top), roots, files)


def _inside(path: PurePosixPath, roots: list[PurePosixPath]) -> list[PurePosixPath]:
    """The folder and those above it, innermost first, as far as they lie in one of the roots."""
    return [
        each
        for each in (path, *path.parents)
        if each not in roots and any(each.is_relative_to(root) for root in roots)
    ]


def _remove_empty(path: PurePosixPath, roots: list[PurePosixPath], files: BoxFiles) -> None:
    for each in _inside(path, roots):
        try:
            files.remove_empty(each)
        except FileNotFoundError:
            continue
        except OSError:
            return


def users(made: DeletionPlan, files: BoxFiles, *, proc: Path = Path("/proc")) -> list[str]:
    """Processes that have a file of it open or mapped, as far as they can be seen."""
    wanted = set()
    for path in _files(made, files):
        with suppress(OSError):
            seen = files.file(path)
            wanted.add((seen.st_dev, seen.st_ino))
    return resources.holders(wanted, proc)


def _repository(path: PurePosixPath) -> PurePosixPath | None:
    """The models--… folder of a Hugging Face cache that a path lies in; None outside of one."""
    for each in (path, *path.parents):
        if each.name.startswith("models--"):
            return each
    return None


class _Planned:
    def __init__(self, files: BoxFiles) -> None:
        self._files = files

    def of_snapshot(self, snapshot: PurePosixPath, repository: PurePosixPath) -> DeletionPlan:
        others = [each for each in self._subfolders(repository / "snapshots") if each != snapshot]
        if not others:
            locks = repository.parent / ".locks" / repository.name
            return self.of_trees([repository, *([locks] if self._files.is_folder(locks) else [])])
        mine = dict(self._links(snapshot))
        theirs = {blob for each in others for _link, blob in self._links(each) if blob}
        return self._partly(repository, mine, theirs, [snapshot], commit=snapshot.name)

    def of_gguf(self, first: PurePosixPath, repository: PurePosixPath | None) -> DeletionPlan:
        """A file with its other parts; the whole snapshot where nothing else in it is a model."""
        parts = self._parts(first)
        if repository is None:
            return self._build_plan(first.parent, parts, [])
        snapshot = next((each for each in first.parents if each.parent.name == "snapshots"), None)
        if snapshot is None:
            raise DiscardError(f"{first} is no folder and no file of a revision.")
        links = dict(self._links(snapshot))
        if not any(self._is_model(link) and link not in parts for link in links):
            return self.of_snapshot(snapshot, repository)
        mine = {link: links[link] for link in parts if link in links}
        theirs = {
            blob
            for each in self._subfolders(repository / "snapshots")
            for link, blob in self._links(each)
            if blob and link not in mine
        }
        return self._partly(repository, mine, theirs, [])

    def of_trees(self, trees: list[PurePosixPath]) -> DeletionPlan:
        return self._build_plan(trees[0], [], trees)

    def _is_model(self, link: PurePosixPath) -> bool:
        file = stored.file_at(link, link.parent, self._files.look_at(link), self._files)
        return file is not None and stored.is_weights(file)

    def _parts(self, first: PurePosixPath) -> list[PurePosixPath]:
        if not stored.PART.fullmatch(first.name):
            return [first]
        inside = self._files.entries(first.parent, MOST_ENTRIES).found
        names = stored.find_parts(first.name, (name for name, _seen in inside))
        return [first.parent / name for name in names]

    def _partly(
        self,
        repository: PurePosixPath,
        mine: dict[PurePosixPath, str],
        theirs: set[str],
        trees: list[PurePosixPath],
        *,
        commit: str = "",
    ) -> DeletionPlan:
        """Some of a repository's files: blobs that other revisions use stay."""
        blobs = repository / "blobs"
        refs = self._refs(repository / "refs", commit) if commit else []
        gone = [blobs / name for name in sorted(set(mine.values()) - theirs) if name]
        shared = [blobs / name for name in set(mine.values()) & theirs if name]
        links = [] if trees else list(mine)
        kept = sum(self._size(each) for each in shared)
        # First what leads to it, then the files, then the links: whatever is cut off in the middle
        # is still found, and can be deleted again.
        return self._build_plan(repository, [*refs, *gone, *links], trees, kept=kept)

    def _build_plan(
        self,
        top: PurePosixPath,
        files: Iterable[PurePosixPath],
        trees: list[PurePosixPath],
        *,
        kept: int = 0,
    ) -> DeletionPlan:
        there = [(each, seen) for each in files if (seen := self._stat(each)) is not None]
        below = [seen for tree in trees for _path, seen in _walk_tree(tree, self._files)]
        everything = [*(seen for _path, seen in there), *below]
        held = [seen for seen in everything if stat.S_ISREG(seen.st_mode)]
        names = Counter((seen.st_dev, seen.st_ino) for seen in held)
        sizes = {(seen.st_dev, seen.st_ino): seen for seen in held}
        freed = elsewhere = 0
        for key, seen in sizes.items():
            if seen.st_nlink > names[key]:
                elsewhere += seen.st_blocks * _BLOCK
            else:
                freed += seen.st_blocks * _BLOCK
        return DeletionPlan(
            top=str(top),
            files=tuple(str(each) for each, _seen in there),
            trees=tuple(map(str, trees)),
            count=len(sizes),
            freed=freed,
            kept=kept + elsewhere,
        )

    def _links(self, snapshot: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
        """The files of a snapshot, with the names of their blobs; "" for one that is no link."""
        for each, seen in _walk_tree(snapshot, self._files):
            target = self._files.target(each) if stat.S_ISLNK(seen.st_mode) else ""
            found = _BLOB.fullmatch(target)
            yield each, found["name"] if found else ""

    def _refs(self, folder: PurePosixPath, commit: str) -> list[PurePosixPath]:
        """The branches and tags that stand for a commit."""
        if self._stat(folder) is None:
            return []
        found = [each for each, seen in _walk_tree(folder, self._files) if _is_file(seen)]
        return [each for each in found if self._says(each, commit)]

    def _says(self, ref: PurePosixPath, commit: str) -> bool:
        try:
            return checkpoints.ref(ref, self._files) == commit
        except OSError:
            return False

    def _subfolders(self, folder: PurePosixPath) -> list[PurePosixPath]:
        inside = self._files.entries(folder, MOST_ENTRIES).found
        return [folder / name for name, seen in inside if stat.S_ISDIR(seen.st_mode)]

    def _size(self, path: PurePosixPath) -> int:
        seen = self._stat(path)
        return seen.st_blocks * _BLOCK if seen is not None else 0

    def _stat(self, path: PurePosixPath) -> os.stat_result | None:
        try:
            return self._files.look_at(path)
        except FileNotFoundError:
            return None


def _is_file(seen: os.stat_result) -> bool:
    return stat.S_ISREG(seen.st_mode)


def _walk_tree(
    tree: PurePosixPath, files: BoxFiles
) -> Iterator[tuple[PurePosixPath, os.stat_result]]:
    """Everything but folders. Raises DiscardError where it is more than a model."""
    device = files.look_at(tree).st_dev
    try:
        yield from files.iterate_files(tree, MOST_ENTRIES, of_device=device)
    except OtherDiskError as error:
        raise DiscardError(
            f"Another disk is mounted at {error.filename}: unmount it first."
        ) from error
    except RefusedFileError as error:
        raise DiscardError(
            f"{tree} holds {error.because}, which is no model. Delete what is to go by hand."
        ) from error


def _files(made: DeletionPlan, files: BoxFiles) -> Iterator[PurePosixPath]:
    yield from map(PurePosixPath, made.files)
    for each in made.trees:
        with suppress(OSError, DiscardError):
            yield from (path for path, _seen in _walk_tree(PurePosixPath(each), files))

"""Checkpoints below a folder of the box, and whether each is complete. Read-only."""

import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from servers.host.files import box_files, paths
from servers.host.files.box_files import BoxFiles, Entries, RefusedFileError, because
from servers.host.weights import checkpoints, stored
from servers.host.weights.stored import Checkpoint, State, StoredFile

# Somebody may name a folder with a home, a dataset or a build tree in it.
MOST_ENTRIES = 200_000
DEEPEST = 7
MOST_FOUND = 1000
MOST_REFS = 2000  # of one repository
MOST_SAID = 20  # refs that were not read
_LEFT_OUT = frozenset({"node_modules", "site-packages", "lost+found", "__pycache__", "overlay2"})

_HUB = "models--"

# What is wrong with a file of this path, size and time; "": nothing.
type Whole = dict[tuple[PurePosixPath, int, float], str]


@dataclass(frozen=True, kw_only=True)
class FolderInventory:
    found: tuple[Checkpoint, ...]
    hidden: tuple[str, ...] = ()  # folders of the box that this process may not look into
    is_cut: bool = False  # there was more than was looked at
    absent: bool = False  # the folder itself is not there


class Inventory:
    """Looks again and again, and reads the header of each file of weights once."""

    def __init__(self) -> None:
        self._whole: Whole = {}

    def look(self, folder: str, files: BoxFiles, *, seconds: float = 120.0) -> FolderInventory:
        """Everything below a folder of the box. Never raises: what cannot be read is told.

        Links to folders are followed where they lead to the folder itself, not below it, so that
        nothing is counted twice. It ends after `seconds`, and says that it was cut.
        """
        try:
            top = paths.resolve(folder, root=files.root)
            if not stat.S_ISDIR(files.look_at(top).st_mode):
                return FolderInventory(found=(), absent=True)
        except paths.HiddenPathError:
            return FolderInventory(found=(), hidden=(folder,))
        except (paths.PathError, OSError):
            return FolderInventory(found=(), absent=True)
        walk = _Walk(files, until=time.monotonic() + seconds)
        look = _FolderScan(files, self._whole)
        found: list[Checkpoint] = []
        for here, inside in walk.folders(top):
            found += look.of_folder(here, inside)
            if len(found) >= MOST_FOUND:
                walk.is_cut = True
                break
        # Of files that are gone nothing is kept: somebody may make others without an end.
        elsewhere = {key: was for key, was in self._whole.items() if not key[0].is_relative_to(top)}
        self._whole = elsewhere | look.whole
        hidden = tuple(sorted(map(str, walk.hidden)))
        return FolderInventory(found=tuple(found), hidden=hidden, is_cut=walk.is_cut)


class _FolderScan:
    """What a folder holds. `whole` says of the files that it met what is wrong with them."""

    def __init__(self, files: BoxFiles, known: Whole) -> None:
        self.whole: Whole = {}
        self._files = files
        self._known = known

    def of_folder(self, here: PurePosixPath, inside: Entries) -> Iterator[Checkpoint]:
        if here.name.startswith(_HUB):
            yield from self._of_hub(here)
            return
        files = stored.files_in(here, inside.found, self._files)
        models = [each for each in files if stored.is_weights(each)]
        ggufs = [each for each in models if each.path.suffix == ".gguf"]
        rest = [each for each in models if each.path.suffix != ".gguf"]
        index = any(each.name == checkpoints.INDEX for each in files)
        has_config = any(each.name in ("config.json", "adapter_config.json") for each in files)
        if (rest and has_config) or index:
            leftover = stored.find_unfinished(here, self._files)
            yield self._checkpoint(
                here, files, rest, name=stored.name_of(here), unfinished=leftover
            )
        for parts in stored.ggufs(ggufs):
            yield self._gguf(here, files, parts)

    def _of_hub(self, repository: PurePosixPath) -> Iterator[Checkpoint]:
        """Each revision of a repository in a Hugging Face cache.

        Rule: the layout of huggingface_hub's cache (models--org--name/{refs,blobs,snapshots}).
        """
        name = repository.name.removeprefix(_HUB).replace("--", "/")
        refs, unread = self._refs(repository / "refs")
        unfinished = self._incomplete(repository / "blobs")
        snapshots = self._subfolders(repository / "snapshots")
        if not snapshots and unfinished:
            yield self._nothing_but_parts(repository, name, unfinished)
        for snapshot in snapshots:
            if not checkpoints.COMMIT.fullmatch(snapshot.name):
                yield self._no_commit(snapshot, name)
                continue
            # What is half there belongs to the revision that was asked for last.
            mine = tuple(sorted(ref for ref, commit in refs.items() if commit == snapshot.name))
            half = unfinished if mine or len(snapshots) == 1 else []
            for each in self._of_snapshot(snapshot, half, name=name, refs=mine):
                yield replace(each, unread=each.unread | unread)

    def _of_snapshot(
        self, snapshot: PurePosixPath, half: list[StoredFile], *, name: str, refs: tuple[str, ...]
    ) -> Iterator[Checkpoint]:
        files: list[StoredFile] = []
        dangling: list[str] = []
        try:
            for path, seen in self._files.iterate_files(snapshot, stored.MOST_BELOW):
                made = stored.file_at(path, snapshot, seen, self._files)
                if made is not None:
                    files.append(made)
                elif self._leads_nowhere(path):
                    dangling.append(str(path.relative_to(snapshot)))
        except RefusedFileError as error:
            yield self._unread(snapshot, name, f"it holds {error.because}; not read")
            return
        except OSError as error:
            yield self._unread(snapshot, name, f"it cannot be read: {error.strerror or error}")
            return
        models = [each for each in files if stored.is_weights(each)]
        groups = stored.ggufs([each for each in models if each.path.suffix == ".gguf"])
        plain = [each for each in models if each.path.suffix != ".gguf"]
        options: dict[str, Any] = {
            "name": name, "is_hub": True, "revision": snapshot.name, "refs": refs,
        }  # fmt: skip
        if plain or not groups:
            yield self._checkpoint(
                snapshot, files, plain, unfinished=half, dangling=dangling, **options
            )
        for parts in groups:
            yield self._gguf(snapshot, files, parts, **options)

    def _leads_nowhere(self, path: PurePosixPath) -> bool:
        try:
            self._files.file(path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return False

    def _no_commit(self, snapshot: PurePosixPath, name: str) -> Checkpoint:
        return self._unread(
            snapshot, name, "its folder is called by no commit of the Hub (40 or 64 digits)"
        )

    def _unread(self, folder: PurePosixPath, name: str, because: str) -> Checkpoint:
        """What is there and is not looked into."""
        return Checkpoint(
            path=str(folder),
            name=name,
            is_hub=True,
            format="",
            weights=0,
            size=0,
            files=0,
            state="partial",
            because=because,
            fingerprint="",
            changed=0.0,
        )

    def _nothing_but_parts(
        self, repository: PurePosixPath, name: str, unfinished: list[StoredFile]
    ) -> Checkpoint:
        return replace(
            self._unread(repository, name, stored.in_part(len(unfinished))),
            size=sum(each.size for each in unfinished),
            changed=max(each.changed for each in unfinished),
        )

    def _checkpoint(
        self,
        folder: PurePosixPath,
        files: list[StoredFile],
        models: list[StoredFile],
        *,
        name: str,
        unfinished: list[StoredFile],
        dangling: Iterable[str] = (),
        **more: Any,
    ) -> Checkpoint:
        wanted = checkpoints.index_of(folder, self._files)
        used = stored.of_one_format(models, wanted)
        read = checkpoints.look(folder, self._files)
        # Without an index the names of the parts tell how many there are.
        named = stored.list_parts(used) if wanted is None else wanted
        lacking = sorted(named - {each.name for each in used})
        lacking = lacking or [
            each for each in dangling if stored.FORMATS.get(PurePosixPath(each).suffix)
        ]
        because = self._because(used, lacking, len(named), unfinished)
        if not used and not lacking and not unfinished:
            state: State = "without weights"
        else:
            state = "partial" if because else "complete"
        total = sum(each.size for each in used)
        texts, unread = stored.texts(files, self._files)
        unread |= read.unread if read is not None else {}
        return Checkpoint(
            path=str(folder),
            name=name,
            format=stored.FORMATS[used[0].path.suffix] if used else "",
            weights=total,
            size=sum(each.size for each in files),
            files=len(used),
            state=state,
            because=because,
            missing=read.missing if read is not None and read.missing and lacking else None,
            fingerprint=stored.fingerprint(used),
            config=read.config if read is not None else None,
            is_adapter=any(each.name == "adapter_config.json" for each in files),
            changed=max((each.changed for each in used or files), default=0.0),
            texts=texts,
            unread=unread,
            licence=stored.licence(files),
            **{"is_hub": False, **more},
        )

    def _gguf(
        self, folder: PurePosixPath, files: list[StoredFile], parts: list[StoredFile], **more: Any
    ) -> Checkpoint:
        first = parts[0]
        split = stored.PART.fullmatch(first.path.name)
        count = int(split["count"]) if split else 1
        read = checkpoints.look(first.path, self._files)
        lacking = [f"{count - len(parts)} parts"] if len(parts) < count else []
        because = self._because(parts, lacking, count, [])
        if lacking:
            because = f"{len(parts)} of {count} parts are here"
        total = sum(each.size for each in parts)
        plain_name = split["name"] if split else first.path.stem
        texts, unread = stored.texts(files, self._files)
        return Checkpoint(
            path=str(first.path),
            format="gguf",
            weights=total,
            size=total,
            files=len(parts),
            state="partial" if because else "complete",
            because=because,
            fingerprint=stored.fingerprint(parts),
            config=read.config if read is not None else None,
            changed=max(each.changed for each in parts),
            texts=texts,
            unread=unread,
            licence=stored.licence(files),
            **{"is_hub": False, "name": plain_name, **more},
        )

    def _because(
        self, models: list[StoredFile], lacking: list[str], count: int, unfinished: list[StoredFile]
    ) -> str:
        """What is not whole about it; "" when nothing is known to be."""
        if len(lacking) == 1:
            return f"{lacking[0]} is missing"
        if lacking:
            of = f" of {count}" if count else ""
            return f"{len(lacking)}{of} files are missing, {lacking[0]} among them"
        for each in models:
            if fault := self._fault(each):
                return fault
        return stored.in_part(len(unfinished)) if unfinished else ""

    def _fault(self, file: StoredFile) -> str:
        if file.because:
            return stored.fault(file, self._files)
        key = (file.path, file.size, file.changed)
        if key not in self.whole:
            known = self._known.get(key)
            self.whole[key] = stored.fault(file, self._files) if known is None else known
        return self.whole[key]

    def _refs(self, folder: PurePosixPath) -> tuple[dict[str, str], dict[str, str]]:
        """The commits of branches and tags, and why some were not read."""
        found: dict[str, str] = {}
        unread: dict[str, str] = {}
        try:
            for path, _seen in self._files.iterate_files(folder, MOST_REFS):
                name = str(path.relative_to(folder))
                try:
                    if commit := checkpoints.ref(path, self._files):
                        found[name] = commit
                except OSError as error:
                    unread[f"refs/{name}"] = because(error)
        except FileNotFoundError:
            return found, unread
        except OSError as error:
            unread["refs"] = because(error)
        return found, dict(list(unread.items())[:MOST_SAID])

    def _incomplete(self, blobs: PurePosixPath) -> list[StoredFile]:
        try:
            inside = self._files.entries(blobs, stored.MOST_BELOW).found
        except OSError:
            return []
        parts = [each for each in inside if each[0].endswith(".incomplete")]
        return [each for each in stored.files_in(blobs, parts, self._files) if not each.because]

    def _subfolders(self, folder: PurePosixPath) -> list[PurePosixPath]:
        try:
            inside = self._files.entries(folder, MOST_REFS).found
        except OSError:
            return []
        return [folder / name for name, seen in inside if stat.S_ISDIR(seen.st_mode)]


class _Walk:
    def __init__(self, files: BoxFiles, *, until: float) -> None:
        self.until = until
        self.hidden: list[PurePosixPath] = []
        self.is_cut = False
        self._files = files
        self._left = MOST_ENTRIES

    def folders(self, top: PurePosixPath) -> Iterator[tuple[PurePosixPath, Entries]]:
        todo = [(top, 1)]
        while todo:
            here, depth = todo.pop()
            if time.monotonic() >= self.until or self._left <= 0:
                self.is_cut = True
                return
            try:
                inside = self._files.entries(here, min(self._left, box_files.MOST_ENTRIES))
            except PermissionError:
                self.hidden.append(here)
                continue
            except OSError:
                continue  # gone meanwhile, or a share that answers no more
            self._left -= inside.looked
            self.is_cut = self.is_cut or inside.is_cut
            yield here, inside
            if here.name.startswith(_HUB):
                continue
            deeper = [
                here / name
                for name, seen in inside.found
                if stat.S_ISDIR(seen.st_mode) and _is_to_be_entered(name)
            ]
            if depth < DEEPEST:
                todo += [(each, depth + 1) for each in reversed(deeper)]
            else:
                self.is_cut = self.is_cut or bool(deeper)


def _is_to_be_entered(name: str) -> bool:
    # Caches of tools begin with a dot; the Hub's and ModelScope's are folders of their own.
    return not (name.startswith((".", "datasets--")) or name in _LEFT_OUT)

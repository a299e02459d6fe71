"""Which checkpoints lie below a folder of the box, and whether each is whole. Changes nothing."""

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers.host import checkpoints, paths, stored
from servers.host.stored import Checkpoint, File, State

# Somebody may name a folder with a home, a dataset or a build tree in it.
MOST_ENTRIES = 200_000
DEEPEST = 7
MOST_FOUND = 1000
_LEFT_OUT = frozenset({"node_modules", "site-packages", "lost+found", "__pycache__", "overlay2"})

_HUB = "models--"


@dataclass(frozen=True, kw_only=True)
class Stock:
    found: tuple[Checkpoint, ...]
    hidden: tuple[str, ...] = ()  # folders of the box that this process may not look into
    is_cut: bool = False  # there was more than was looked at
    absent: bool = False  # the folder itself is not there


class Inventory:
    """Looks again and again, and reads the header of each file of weights once."""

    def __init__(self, *, root: Path = Path("/")) -> None:
        """`root` is where this process sees the box's "/"."""
        self._root = root
        self._whole: dict[tuple[str, int, float], str] = {}

    def look(self, folder: str, *, seconds: float = 120.0) -> Stock:
        """Everything below a folder of the box. Never raises: what cannot be read is told.

        Links to folders are followed where they lead to the folder itself, not below it, so that
        nothing is counted twice. It ends after `seconds`, and says that it was cut.
        """
        try:
            top = self._root / paths.resolve(folder, root=self._root).relative_to("/")
            if not top.is_dir():
                return Stock(found=(), absent=True)
        except paths.HiddenPathError:
            return Stock(found=(), hidden=(folder,))
        except (paths.PathError, PermissionError):
            return Stock(found=(), absent=True)
        walk = _Walk(until=time.monotonic() + seconds)
        found: list[Checkpoint] = []
        for here, entries in walk.folders(top):
            found += self._of_folder(here, entries)
            if len(found) >= MOST_FOUND:
                walk.is_cut = True
                break
        hidden = tuple(sorted(self._on_box(each) for each in walk.hidden))
        return Stock(found=tuple(found), hidden=hidden, is_cut=walk.is_cut)

    def _of_folder(self, here: Path, entries: "list[os.DirEntry[str]]") -> Iterator[Checkpoint]:
        if here.name.startswith(_HUB):
            yield from self._of_hub(here)
            return
        files = _files(entries)
        models = [each for each in files if stored.is_weights(each)]
        ggufs = [each for each in models if each.path.suffix == ".gguf"]
        rest = [each for each in models if each.path.suffix != ".gguf"]
        index = any(each.name == checkpoints.INDEX for each in files)
        has_config = any(each.name in ("config.json", "adapter_config.json") for each in files)
        if (rest and has_config) or index:
            leftover = stored.unfinished(here)
            yield self._checkpoint(
                here, files, rest, name=stored.name_of(here), unfinished=leftover
            )
        for parts in stored.ggufs(ggufs):
            yield self._gguf(here, files, parts)

    def _of_hub(self, repository: Path) -> Iterator[Checkpoint]:
        """Each revision of a repository in a Hugging Face cache.

        Rule: the layout of huggingface_hub's cache (models--org--name/{refs,blobs,snapshots}).
        """
        name = repository.name.removeprefix(_HUB).replace("--", "/")
        refs = _refs(repository / "refs")
        unfinished = _incomplete(repository / "blobs")
        snapshots = _subfolders(repository / "snapshots")
        if not snapshots and unfinished:
            yield self._nothing_but_parts(repository, name, unfinished)
        for snapshot in snapshots:
            found = [
                each
                for each in snapshot.rglob("*")
                if not each.is_dir() and paths.is_text(str(each))
            ]
            files = [made for each in found if (made := stored.file_at(each, snapshot)) is not None]
            dangling = [str(each.relative_to(snapshot)) for each in found if not each.exists()]
            models = [each for each in files if stored.is_weights(each)]
            mine = tuple(sorted(ref for ref, commit in refs.items() if commit == snapshot.name))
            # What is half there belongs to the revision that was asked for last.
            half = unfinished if mine or len(snapshots) == 1 else []
            groups = stored.ggufs([each for each in models if each.path.suffix == ".gguf"])
            plain = [each for each in models if each.path.suffix != ".gguf"]
            options: dict[str, Any] = {
                "name": name, "is_hub": True, "revision": snapshot.name, "refs": mine,
            }  # fmt: skip
            if plain or not groups:
                yield self._checkpoint(
                    snapshot, files, plain, unfinished=half, dangling=dangling, **options
                )
            for parts in groups:
                yield self._gguf(snapshot, files, parts, **options)

    def _nothing_but_parts(self, repository: Path, name: str, unfinished: list[File]) -> Checkpoint:
        size = sum(each.size for each in unfinished)
        return Checkpoint(
            path=self._on_box(repository),
            name=name,
            is_hub=True,
            format="",
            weights=0,
            size=size,
            files=0,
            state="partial",
            because=stored.in_part(len(unfinished)),
            fingerprint="",
            changed=max(each.changed for each in unfinished),
        )

    def _checkpoint(
        self,
        folder: Path,
        files: list[File],
        models: list[File],
        *,
        name: str,
        unfinished: list[File],
        dangling: Iterable[str] = (),
        **more: Any,
    ) -> Checkpoint:
        wanted = checkpoints.index_of(folder)
        used = stored.of_one_format(models, wanted)
        read = checkpoints.look(folder)
        # Without an index the names of the parts tell how many there are.
        named = stored.counted(used) if wanted is None else wanted
        lacking = sorted(named - {each.name for each in used})
        lacking = lacking or [each for each in dangling if stored.FORMATS.get(Path(each).suffix)]
        because = self._because(used, lacking, len(named), unfinished)
        if not used and not lacking and not unfinished:
            state: State = "without weights"
        else:
            state = "partial" if because else "complete"
        total = sum(each.size for each in used)
        return Checkpoint(
            path=self._on_box(folder),
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
            texts=stored.texts(files),
            licence=stored.licence(files),
            **{"is_hub": False, **more},
        )

    def _gguf(self, folder: Path, files: list[File], parts: list[File], **more: Any) -> Checkpoint:
        first = parts[0]
        split = stored.PART.fullmatch(first.path.name)
        count = int(split["count"]) if split else 1
        read = checkpoints.look(first.path)
        lacking = [f"{count - len(parts)} parts"] if len(parts) < count else []
        because = self._because(parts, lacking, count, [])
        if lacking:
            because = f"{len(parts)} of {count} parts are here"
        total = sum(each.size for each in parts)
        plain_name = split["name"] if split else first.path.stem
        return Checkpoint(
            path=self._on_box(first.path),
            format="gguf",
            weights=total,
            size=total,
            files=len(parts),
            state="partial" if because else "complete",
            because=because,
            fingerprint=stored.fingerprint(parts),
            config=read.config if read is not None else None,
            changed=max(each.changed for each in parts),
            texts=stored.texts(files),
            licence=stored.licence(files),
            **{"is_hub": False, "name": plain_name, **more},
        )

    def _because(
        self, models: list[File], lacking: list[str], count: int, unfinished: list[File]
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

    def _fault(self, file: File) -> str:
        key = (str(file.path), file.size, file.changed)
        if key not in self._whole:
            self._whole[key] = stored.fault(file)
        return self._whole[key]

    def _on_box(self, path: Path) -> str:
        return "/" + str(path.relative_to(self._root)).removeprefix(".").lstrip("/")


class _Walk:
    def __init__(self, *, until: float) -> None:
        self.until = until
        self.hidden: list[Path] = []
        self.is_cut = False
        self._left = MOST_ENTRIES

    def folders(self, top: Path) -> "Iterator[tuple[Path, list[os.DirEntry[str]]]]":
        todo = [(top, 1)]
        while todo:
            here, depth = todo.pop()
            if time.monotonic() >= self.until or self._left <= 0:
                self.is_cut = True
                return
            try:
                with os.scandir(here) as inside:
                    named = (each for each in inside if paths.is_text(each.name))
                    entries = sorted(named, key=lambda each: each.name)
            except PermissionError:
                self.hidden.append(here)
                continue
            except OSError:
                continue  # gone meanwhile, or a share that answers no more
            self._left -= len(entries)
            yield here, entries
            if here.name.startswith(_HUB):
                continue
            deeper = [Path(each.path) for each in entries if _is_to_be_entered(each)]
            if depth < DEEPEST:
                todo += [(each, depth + 1) for each in reversed(deeper)]
            else:
                self.is_cut = self.is_cut or bool(deeper)


def _is_to_be_entered(entry: "os.DirEntry[str]") -> bool:
    # Caches of tools begin with a dot; the Hub's and ModelScope's are folders of their own.
    if entry.name.startswith(".") or entry.name in _LEFT_OUT or entry.name.startswith("datasets--"):
        return False
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _files(entries: "Iterable[os.DirEntry[str]]") -> list[File]:
    found = [stored.file_at(Path(each.path), Path(each.path).parent) for each in entries]
    return [each for each in found if each is not None]


def _refs(folder: Path) -> dict[str, str]:
    found = {}
    for each in folder.rglob("*") if folder.is_dir() else ():
        try:
            if each.is_file() and paths.is_text(str(each)):
                found[str(each.relative_to(folder))] = each.read_text().strip()[:64]
        except (OSError, ValueError):
            continue  # a ref that cannot be read names nothing
    return found


def _incomplete(blobs: Path) -> list[File]:
    found = [stored.file_at(each, blobs) for each in blobs.glob("*.incomplete")]
    return [each for each in found if each is not None]


def _subfolders(folder: Path) -> list[Path]:
    try:
        return sorted(
            each for each in folder.iterdir() if each.is_dir() and paths.is_text(each.name)
        )
    except OSError:
        return []

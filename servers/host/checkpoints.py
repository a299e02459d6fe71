"""What a checkpoint on the box is like: its config.json and the size of its weights."""

import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from servers.host import gguf, llamafiles

_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt")
# config.json of the largest models is a few hundred KiB, for the layers that are quantised.
_LONGEST_CONFIG = 4 << 20
_LONGEST_INDEX = 64 << 20
_MOST_FILES = 5000
_LARGEST = 2**60  # bytes: whatever names more is no index
INDEX = "model.safetensors.index.json"
_SPLIT = re.compile(r"(?P<name>.+)-00001-of-(?P<count>[0-9]{5})\.gguf")


@dataclass(frozen=True, kw_only=True)
class Found:
    """None: there is no config.json (or it is none), or no file of weights."""

    config: dict[str, Any] | None  # of a GGUF file what its header says, in the same words
    weights: int | None  # bytes; of what will be there, where an index tells
    missing: int = 0  # bytes of them that are not there yet, as far as an index tells


def look(path: Path) -> Found | None:
    """The checkpoint in a folder, or in a single file; None where there is nothing to read."""
    try:
        if path.is_file():
            return Found(config=_header(path), weights=_with_parts(path))
        if not path.is_dir():
            return None
        config = _config(path / "config.json")
        if (indexed := _indexed(path)) is not None:
            weights, missing = indexed
            return Found(config=config, weights=weights, missing=missing)
        return Found(config=config, weights=_weights(path))
    except OSError:
        return None


def look_for_gguf(folder: Path, wanted: str) -> Found | None:
    """The model that llama.cpp would load of a repository's folder; None where it is not whole.

    `wanted` is as llamafiles.model() has it.
    """
    try:
        there = {str(each.relative_to(folder)): each for each in folder.rglob("*.gguf")}
        parts = llamafiles.model(there, wanted)
        if not llamafiles.is_whole(parts):
            return None
        size = sum(there[name].stat().st_size for name in parts)
    except OSError:  # a link in a cache that leads to nothing yet, too
        return None
    return Found(config=_header(there[parts[0]]), weights=size)


def _header(path: Path) -> dict[str, Any] | None:
    if path.suffix != ".gguf":
        return None
    try:
        return gguf.config(path)
    except (gguf.GgufError, MemoryError):
        return None


def _with_parts(path: Path) -> int:
    """The size of a file; of the first of several parts that of all that are there."""
    split = _SPLIT.fullmatch(path.name)
    if split is None:
        return path.stat().st_size
    parts = path.parent.glob(f"*-of-{split['count']}.gguf")
    return sum(each.stat().st_size for each in parts if each.name.startswith(split["name"] + "-"))


def _indexed(folder: Path) -> tuple[int, int] | None:
    """Bytes of the weights that the safetensors index names, and of those that are not there.

    A repository may hold the same weights under two names (Mistral's consolidated files); only
    the index says which are loaded. None without an index, or where it does not tell.
    """
    index = _index(folder)
    files = _named(index)
    if files is None:
        return None
    there = [folder / each for each in files if (folder / each).is_file()]
    size = sum(each.stat().st_size for each in there)
    if len(there) == len(files):
        return size, 0
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if not isinstance(total, int) or not 0 < total <= _LARGEST:
        return None
    return max(size, total), max(0, total - size)


def index_of(folder: Path) -> set[str] | None:
    """The files of weights that a folder's safetensors index names; None without an index."""
    return _named(_index(folder))


def _index(folder: Path) -> dict[str, Any]:
    return _config(folder / INDEX, longest=_LONGEST_INDEX) or {}


def _named(index: dict[str, Any]) -> set[str] | None:
    named = index.get("weight_map")
    if not isinstance(named, dict) or not named:
        return None
    return {each for each in named.values() if isinstance(each, str) and "/" not in each}


def snapshot(hub: Path, checkpoint: str, revision: str = "") -> Path | None:
    """The folder of a Hugging Face id in a cache; None where it was never downloaded.

    Rule: the layout of huggingface_hub's cache (models--org--name/{refs,snapshots}).
    """
    if ".." in PurePosixPath(revision).parts or revision.startswith("/"):
        return None  # leads out of the cache
    folder = hub / ("models--" + checkpoint.split(":")[0].replace("/", "--"))
    commit = _commit(folder, revision or "main")
    return folder / "snapshots" / commit if commit else None


def commit_of(hub: Path, checkpoint: str, revision: str = "") -> str:
    """The commit that a branch, tag or commit stands for in a cache; "" where it is not there."""
    found = snapshot(hub, checkpoint, revision)
    return found.name[:64] if found else ""


def _commit(folder: Path, wanted: str) -> str:
    try:
        ref = folder / "refs" / wanted
        if ref.is_file():
            return ref.read_text().strip()
        return wanted if (folder / "snapshots" / wanted).is_dir() else ""
    except (OSError, ValueError):
        return ""


def _config(path: Path, *, longest: int = _LONGEST_CONFIG) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > longest:
            return None
        read = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def _weights(folder: Path) -> int | None:
    """Of one format: many checkpoints carry the same weights as safetensors and as .bin."""
    sizes = dict.fromkeys(_WEIGHTS, 0)
    for count, each in enumerate(folder.iterdir()):
        if count == _MOST_FILES:
            break
        if each.suffix in sizes and each.is_file():
            sizes[each.suffix] += each.stat().st_size
    return next((size for size in sizes.values() if size), None)

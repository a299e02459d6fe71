"""A checkpoint on the box: its config.json, the size of its weights, and caches."""

import json
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from servers.host.files.box_files import BoxFiles, because
from servers.host.weights import gguf, stored

_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt")
# config.json of the largest models is a few hundred KiB, for the layers that are quantised.
_LONGEST_CONFIG = 4 << 20
_LONGEST_INDEX = 64 << 20
_MOST_FILES = 5000
_LARGEST = 2**60  # bytes: whatever names more is no index
INDEX = "model.safetensors.index.json"
# Of the Hub: git's SHA-1, or its SHA-256.
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LONGEST_REF = 100  # bytes
_FIRST_PART = re.compile(r".+-00001-of-[0-9]{5}\.gguf")


@dataclass(frozen=True, kw_only=True)
class CheckpointFiles:
    """None: there is no config.json (or it is none), or no file of weights."""

    config: dict[str, Any] | None  # of a GGUF file what its header says, in the same words
    weights: int | None  # bytes; of what will be there, where an index tells
    missing: int = 0  # bytes of them that are not there yet, as far as an index tells
    unread: Mapping[str, str] = field(default_factory=dict)  # by name: why it was not read


def look(path: PurePosixPath, files: BoxFiles) -> CheckpointFiles | None:
    """The checkpoint in a folder, or in a single file; None where there is nothing to read."""
    try:
        if not stat.S_ISDIR(files.look_at(path).st_mode):
            return CheckpointFiles(config=_header(path, files), weights=_with_parts(path, files))
        unread: dict[str, str] = {}
        config = _config(path / "config.json", files, unread=unread)
        if (indexed := _sum_index(path, files, unread)) is not None:
            weights, missing = indexed
            return CheckpointFiles(config=config, weights=weights, missing=missing, unread=unread)
        return CheckpointFiles(config=config, weights=_weights(path, files), unread=unread)
    except OSError:
        return None


def look_for_gguf(folder: PurePosixPath, wanted: str, files: BoxFiles) -> CheckpointFiles | None:
    """The model that llama.cpp would load of a repository's folder; None where it is not whole.

    `wanted` is as llamafiles.model() has it.
    """
    try:
        there = {
            str(path.relative_to(folder)): path
            for path, _seen in files.iterate_files(folder, _MOST_FILES)
            if path.suffix == ".gguf"
        }
        parts = stored.find_model(there, wanted)
        if not stored.is_whole(parts):
            return None
        size = sum(files.file(there[name]).st_size for name in parts)
    except OSError:  # a link in a cache that leads to nothing yet, too
        return None
    return CheckpointFiles(config=_header(there[parts[0]], files), weights=size)


def _header(path: PurePosixPath, files: BoxFiles) -> dict[str, Any] | None:
    if path.suffix != ".gguf":
        return None
    try:
        with files.open_file(path) as file:
            return gguf.config(file)
    except (gguf.GgufError, MemoryError):
        return None


def _with_parts(path: PurePosixPath, files: BoxFiles) -> int:
    """The size of a file; of the first of several parts that of all that are there."""
    parts = [path.name]
    if _FIRST_PART.fullmatch(path.name):
        inside = files.entries(path.parent, _MOST_FILES).found
        parts = stored.find_parts(path.name, (name for name, _seen in inside))
    return sum(files.file(path.parent / name).st_size for name in parts)


def _sum_index(
    folder: PurePosixPath, files: BoxFiles, unread: dict[str, str]
) -> tuple[int, int] | None:
    """Bytes of the weights that the safetensors index names, and of those that are not there.

    A repository may hold the same weights under two names (Mistral's consolidated files); only
    the index says which are loaded. None without an index, or where it does not tell.
    """
    index = _index(folder, files, unread)
    named = _list_index_files(index)
    if named is None:
        return None
    there = [size for each in named if (size := _size(folder / each, files)) is not None]
    size = sum(there)
    if len(there) == len(named):
        return size, 0
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if not isinstance(total, int) or not 0 < total <= _LARGEST:
        return None
    return max(size, total), max(0, total - size)


def index_of(folder: PurePosixPath, files: BoxFiles) -> set[str] | None:
    """The files of weights that a folder's safetensors index names; None without an index."""
    return _list_index_files(_index(folder, files))


def total(folder: PurePosixPath, files: BoxFiles) -> int | None:
    """Bytes that the weights will be, by a folder's safetensors index; None where it is silent."""
    metadata = _index(folder, files).get("metadata")
    found = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(found) if isinstance(found, int | float) and 0 < found <= _LARGEST else None


def _index(
    folder: PurePosixPath, files: BoxFiles, unread: dict[str, str] | None = None
) -> dict[str, Any]:
    return _config(folder / INDEX, files, longest=_LONGEST_INDEX, unread=unread) or {}


def _list_index_files(index: dict[str, Any]) -> set[str] | None:
    named = index.get("weight_map")
    if not isinstance(named, dict) or not named:
        return None
    return {each for each in named.values() if isinstance(each, str) and _is_name(each)}


def _is_name(text: str) -> bool:
    return bool(text) and text not in (".", "..") and not {"/", "\0"} & set(text)


def snapshot(
    hub: PurePosixPath, checkpoint: str, files: BoxFiles, revision: str = ""
) -> PurePosixPath | None:
    """The folder of a Hugging Face id in a cache; None where it was never downloaded.

    Rule: the layout of huggingface_hub's cache (models--org--name/{refs,snapshots}).
    """
    if ".." in PurePosixPath(revision).parts or revision.startswith("/"):
        return None  # leads out of the cache
    folder = hub / repository(checkpoint)
    commit = _commit(folder, revision or "main", files)
    return folder / "snapshots" / commit if commit else None


def repository(checkpoint: str) -> str:
    """What a Hugging Face cache calls the folder of an id."""
    return "models--" + checkpoint.split(":")[0].replace("/", "--")


def commit_of(hub: PurePosixPath, checkpoint: str, files: BoxFiles, revision: str = "") -> str:
    """The commit that a branch, tag or commit stands for in a cache; "" where it is not there."""
    found = snapshot(hub, checkpoint, files, revision)
    return found.name if found else ""


def ref(path: PurePosixPath, files: BoxFiles) -> str:
    """The commit that a branch or a tag stands for; "" for what is none. Raises OSError."""
    said = files.read(path, _LONGEST_REF, is_text=True).decode(errors="replace").strip()
    return said if COMMIT.fullmatch(said) else ""


def _commit(folder: PurePosixPath, wanted: str, files: BoxFiles) -> str:
    try:
        return ref(folder / "refs" / wanted, files)
    except (FileNotFoundError, NotADirectoryError):
        is_there = COMMIT.fullmatch(wanted) and files.is_folder(folder / "snapshots" / wanted)
        return wanted if is_there else ""
    except (OSError, ValueError):
        return ""


def _config(
    path: PurePosixPath,
    files: BoxFiles,
    *,
    longest: int = _LONGEST_CONFIG,
    unread: dict[str, str] | None = None,
) -> dict[str, Any] | None:
    """None where there is none. `unread` is told of one that is there and was not read."""
    try:
        read = json.loads(files.read(path, longest))
    except FileNotFoundError:
        return None
    except OSError as error:
        if unread is not None:
            unread[path.name] = because(error)
        return None
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def _weights(folder: PurePosixPath, files: BoxFiles) -> int | None:
    """Of one format: many checkpoints carry the same weights as safetensors and as .bin."""
    sizes = dict.fromkeys(_WEIGHTS, 0)
    for name, _seen in files.entries(folder, _MOST_FILES).found:
        path = folder / name
        if path.suffix in sizes:
            sizes[path.suffix] += _size(path, files) or 0
    return next((size for size in sizes.values() if size), None)


def _size(path: PurePosixPath, files: BoxFiles) -> int | None:
    """None for what is no file, or none that may be read."""
    try:
        return files.file(path).st_size
    except (OSError, ValueError):
        return None


def read_cache_size(hub: PurePosixPath, checkpoint: str, files: BoxFiles) -> int | None:
    """Bytes of its blobs on the disk, those included that are not whole yet.

    What the disk holds and not what the files span: some loaders reserve a file's whole
    length at once. None where there is no folder, or this process may not look into it.
    Rule: the layout of huggingface_hub's cache (models--org--name/blobs, *.incomplete).
    """
    folder = hub / repository(checkpoint) / "blobs"
    try:
        found = files.entries(folder, _MOST_FILES).found
    except OSError:
        return None
    return sum(seen.st_blocks * 512 for _name, seen in found)


def sum_cache_sizes(
    hub: PurePosixPath, checkpoint: str, files: BoxFiles, revision: str = ""
) -> int | None:
    """Bytes that its weights will be, by its index; None before that file is there."""
    folder = snapshot(hub, checkpoint, files, revision)
    return total(folder, files) if folder is not None else None

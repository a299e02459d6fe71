"""What a checkpoint on the box is like: its config.json and the size of its weights."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt")
# config.json of the largest models is a few hundred KiB, for the layers that are quantised.
_LONGEST_CONFIG = 4 << 20
_MOST_FILES = 5000


@dataclass(frozen=True, kw_only=True)
class Found:
    """None: there is no config.json (or it is none), or no file of weights."""

    config: dict[str, Any] | None
    weights: int | None  # bytes; of a part while it is being downloaded


def look(path: Path) -> Found | None:
    """The checkpoint in a folder, or in a single file; None where there is nothing to read."""
    try:
        if path.is_file():
            return Found(config=None, weights=path.stat().st_size)
        if not path.is_dir():
            return None
        return Found(config=_config(path / "config.json"), weights=_weights(path))
    except OSError:
        return None


def snapshot(hub: Path, checkpoint: str, revision: str = "") -> Path | None:
    """The folder of a Hugging Face id in a cache; None where it was never downloaded.

    Rule: the layout of huggingface_hub's cache (models--org--name/{refs,snapshots}).
    """
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


def _config(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > _LONGEST_CONFIG:
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

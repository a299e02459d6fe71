"""How much of a checkpoint lies in a Hugging Face cache while an engine downloads it."""

import json
import os
from pathlib import Path

from servers.host import checkpoints

_MOST_FILES = 5000
_LONGEST_INDEX = 64 << 20  # bytes; the largest models name 100,000 tensors in 10 MiB


def size(hub: Path, checkpoint: str) -> int | None:
    """Bytes of its blobs on the disk, those included that are not whole yet.

    What the disk holds and not what the files span: some loaders reserve a file's whole
    length at once. None where there is no folder, or this process may not look into it.
    Rule: the layout of huggingface_hub's cache (models--org--name/blobs, *.incomplete).
    """
    folder = hub / ("models--" + checkpoint.split(":")[0].replace("/", "--")) / "blobs"
    found = 0
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count == _MOST_FILES:
                    break
                found += _held(entry)
    except OSError:
        return None
    return found


def _held(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except FileNotFoundError:
        return 0  # just made whole, under another name


def total(hub: Path, checkpoint: str, revision: str = "") -> int | None:
    """Bytes that its weights will be, by its index; None before that file is there."""
    folder = checkpoints.snapshot(hub, checkpoint, revision)
    if folder is None:
        return None
    path = folder / "model.safetensors.index.json"
    try:
        if path.stat().st_size > _LONGEST_INDEX:
            return None
        read = json.loads(path.read_bytes())
        found = read["metadata"]["total_size"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return int(found) if isinstance(found, int | float) and found > 0 else None

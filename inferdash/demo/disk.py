"""Sizes of the simulated boxes' disks: those of this machine would be smaller than the models on them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inferdash.demo.script import SAMPLE

GIB = 2**30
_SYSTEM = 90 * GIB  # what a box has on its disk besides models and images
_BLOCK = 4096


def simulate_disk(box: str, root: Path) -> None:
    """From now on this process sees a disk of the box's size at all that lies below its `root`."""
    os.statvfs = _make_statvfs(os.statvfs, root, *_measure(box))  # type: ignore[assignment]


def _measure(box: str) -> tuple[int, int]:
    """Bytes in all, and free."""
    size = int(SAMPLE["disks"][box] * GIB)
    models = sum(each["weights"] for each in SAMPLE["models"].values() if each["box"] == box)
    images = sum(size for size, _age in SAMPLE["images"].values())
    return size, size - int((models + images) * GIB) - _SYSTEM


def _make_statvfs(
    real: Callable[[Any], os.statvfs_result], root: Path, size: int, free: int
) -> Callable[[Any], os.statvfs_result]:
    top = os.path.realpath(root)
    memory = f"{top}/dev"  # /dev/shm is no disk

    def statvfs(path: Any) -> os.statvfs_result:
        seen = f"/proc/self/fd/{path}" if isinstance(path, int) else os.fsdecode(path)
        place, found = os.path.realpath(seen), real(path)
        if not _is_below(place, top) or _is_below(place, memory):
            return found
        blocks, empty = size // _BLOCK, free // _BLOCK
        return os.statvfs_result((_BLOCK, _BLOCK, blocks, empty, empty, *tuple(found)[5:]))

    return statvfs


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")

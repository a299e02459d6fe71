"""The size of a checkpoint in a Hugging Face cache while an engine downloads it."""

from pathlib import PurePosixPath

from servers.host.files.box_files import BoxFiles
from servers.host.weights import checkpoints

_MOST_FILES = 5000


def size(hub: PurePosixPath, checkpoint: str, files: BoxFiles) -> int | None:
    """Bytes of its blobs on the disk, those included that are not whole yet.

    What the disk holds and not what the files span: some loaders reserve a file's whole
    length at once. None where there is no folder, or this process may not look into it.
    Rule: the layout of huggingface_hub's cache (models--org--name/blobs, *.incomplete).
    """
    folder = hub / checkpoints.repository(checkpoint) / "blobs"
    try:
        found = files.entries(folder, _MOST_FILES).found
    except OSError:
        return None
    return sum(seen.st_blocks * 512 for _name, seen in found)


def total(hub: PurePosixPath, checkpoint: str, files: BoxFiles, revision: str = "") -> int | None:
    """Bytes that its weights will be, by its index; None before that file is there."""
    folder = checkpoints.snapshot(hub, checkpoint, files, revision)
    return checkpoints.total(folder, files) if folder is not None else None

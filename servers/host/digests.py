"""What the bytes of a file, or of all files in a folder, come to."""

import hashlib
import os
import stat
from pathlib import Path

LARGEST = 256 * 2**20  # bytes: a template, a graph or a folder of patches, no weights
MOST_FILES = 10_000


class DigestError(Exception):
    """A file that cannot be read, with a sentence for a person."""


def sha256(path: Path) -> str:
    """64 hexadecimal digits of a file, or of what sha256sum prints of a folder's files.

    Of a folder: `find . -type f | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum` in it.
    Raises DigestError for what cannot be read, or is larger than files of a profile are.
    """
    try:
        said = path.stat()
        if stat.S_ISDIR(said.st_mode):
            return _of_folder(path)
        if not stat.S_ISREG(said.st_mode):
            raise DigestError("It is not a file.")
        if said.st_size > LARGEST:
            raise DigestError(f"It is larger than {LARGEST // 2**20} MiB.")
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise DigestError("It is not there.") from None
    except OSError as error:
        raise DigestError(f"It cannot be read ({error.strerror}).") from error


def _of_folder(folder: Path) -> str:
    """Raises OSError, too."""
    files: list[tuple[bytes, Path]] = []
    size = 0
    for here, _folders, names in folder.walk():
        for name in names:
            each = here / name
            said = each.lstat()
            if stat.S_ISREG(said.st_mode):  # a link is not followed: it may lead anywhere
                files.append((os.fsencode(f"./{each.relative_to(folder)}"), each))
                size += said.st_size
            if size > LARGEST or len(files) > MOST_FILES:
                raise DigestError(
                    f"It holds more than {LARGEST // 2**20} MiB or {MOST_FILES} files."
                )
    listed = hashlib.sha256()
    for path, each in sorted(files):
        with each.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        listed.update(digest.encode() + b"  " + path + b"\n")
    return listed.hexdigest()

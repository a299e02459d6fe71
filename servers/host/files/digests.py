"""Digests of files and folders."""

import hashlib
import os
import stat
from pathlib import PurePosixPath
from typing import BinaryIO

from servers.host.files.box_files import BoxFiles, RefusedFileError

LARGEST = 256 * 2**20  # bytes: a template, a graph or a folder of patches, no weights
MOST_FILES = 10_000
_BLOCK = 1 << 20


class DigestError(Exception):
    """A file that cannot be read, with a sentence for a person."""


def sha256(path: PurePosixPath, files: BoxFiles) -> str:
    """64 hexadecimal digits of a file, or of what sha256sum prints of a folder's files.

    Of a folder: `find . -type f | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum` in it.
    `path` leads through no link. Raises DigestError for what cannot be read, or is larger than
    files of a profile are.
    """
    try:
        said = files.look_at(path)
        if stat.S_ISDIR(said.st_mode):
            return _of_folder(path, files)
        if not stat.S_ISREG(said.st_mode):
            raise DigestError("It is not a file.")
        if said.st_size > LARGEST:
            raise DigestError(f"It is larger than {LARGEST // 2**20} MiB.")
        return _of_file(path, files)
    except FileNotFoundError:
        raise DigestError("It is not there.") from None
    except RefusedFileError as error:
        raise DigestError(f"It is {error.because}.") from error
    except OSError as error:
        raise DigestError(f"It cannot be read ({error.strerror}).") from error


def _of_file(path: PurePosixPath, files: BoxFiles) -> str:
    with files.open_file(path) as file:
        return _count_bytes(file)


def _count_bytes(file: BinaryIO) -> str:
    """It may have grown since somebody has looked."""
    digest, left = hashlib.sha256(), LARGEST
    while block := file.read(_BLOCK):
        left -= len(block)
        if left < 0:
            raise DigestError(f"It is larger than {LARGEST // 2**20} MiB.")
        digest.update(block)
    return digest.hexdigest()


def _of_folder(folder: PurePosixPath, files: BoxFiles) -> str:
    """Raises OSError, too."""
    found: list[tuple[bytes, PurePosixPath]] = []
    size = 0
    for path, seen in files.iterate_files(folder, MOST_FILES):
        if stat.S_ISREG(seen.st_mode):  # a link is not followed: it may lead anywhere
            found.append((os.fsencode(f"./{path.relative_to(folder)}"), path))
            size += seen.st_size
        if size > LARGEST:
            raise DigestError(f"It holds more than {LARGEST // 2**20} MiB or {MOST_FILES} files.")
    listed = hashlib.sha256()
    for name, path in sorted(found):
        listed.update(_of_file(path, files).encode() + b"  " + name + b"\n")
    return listed.hexdigest()

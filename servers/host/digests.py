"""What a file's bytes come to."""

import hashlib
import stat
from pathlib import Path

LARGEST = 256 * 2**20  # bytes: a template or a graph, no weights


class DigestError(Exception):
    """A file that cannot be read, with a sentence for a person."""


def sha256(path: Path) -> str:
    """64 hexadecimal digits. Raises DigestError for what is no readable file of that size."""
    try:
        said = path.stat()
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

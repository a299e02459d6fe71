"""The expected length of a weights file, by its own header."""

import re
from typing import BinaryIO

from servers.host.weights import gguf

# The safetensors format allows no longer header.
_LONGEST_HEADER = 100_000_000
_BEGINNING = 64  # bytes, after which one knows whether the rest is worth reading
_ENDS = re.compile(rb'"data_offsets"\s*:\s*\[\s*\d+\s*,\s*(\d{1,19})\s*\]')


def read_expected_size(file: BinaryIO, suffix: str) -> int | None:
    """Bytes that the file has when it is whole; None for a format that does not tell.

    0 for a file of such a format whose header itself is cut off or is none. Raises OSError when
    it cannot be read. Sources: the safetensors format (eight bytes of length, a JSON header,
    data by offsets) and GGUF (see host.weights.gguf).
    """
    if suffix == ".safetensors":
        return _safetensors(file)
    if suffix == ".gguf":
        try:
            return gguf.length(file)
        except (gguf.GgufError, MemoryError):
            return 0
    return None


def _safetensors(file: BinaryIO) -> int:
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > _LONGEST_HEADER:
        return 0
    header = file.read(min(length, _BEGINNING))
    if not header.lstrip().startswith(b"{"):
        return 0
    header += file.read(length - len(header))
    if len(header) < length:
        return 0
    return 8 + length + max((int(end) for end in _ENDS.findall(header)), default=0)

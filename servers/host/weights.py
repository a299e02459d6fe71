"""Whether a file of weights is as long as its own header says: what a broken download is not."""

import re
from pathlib import Path

from servers.host import gguf

# The safetensors format allows no longer header.
_LONGEST_HEADER = 100_000_000
_ENDS = re.compile(rb'"data_offsets"\s*:\s*\[\s*\d+\s*,\s*(\d{1,19})\s*\]')


def expected(path: Path) -> int | None:
    """Bytes that the file has when it is whole; None for a format that does not tell.

    0 for a file of such a format whose header itself is cut off or is none. Raises OSError when
    it cannot be read. Sources: the safetensors format (eight bytes of length, a JSON header,
    data by offsets) and GGUF (see host.gguf).
    """
    if path.suffix == ".safetensors":
        return _safetensors(path)
    if path.suffix == ".gguf":
        try:
            return gguf.length(path)
        except (gguf.GgufError, MemoryError):
            return 0
    return None


def _safetensors(path: Path) -> int:
    with path.open("rb") as file:
        first = file.read(8)
        if len(first) < 8:
            return 0
        length = int.from_bytes(first, "little")
        if length > _LONGEST_HEADER:
            return 0
        header = file.read(length)
    if len(header) < length or not header.lstrip().startswith(b"{"):
        return 0
    return 8 + length + max((int(end) for end in _ENDS.findall(header)), default=0)

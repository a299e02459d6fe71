"""Numbers of bytes as Docker writes them: 64g, 512m. Units are powers of 1024."""

import re

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([kmgt]?)i?b?\Z", re.IGNORECASE | re.ASCII)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def read(text: str) -> int:
    """Bytes of 64g, 512m, 1.5G, 1024. Raises ValueError.

    Rule: go-units' RAMInBytes, which `docker run --shm-size` uses.
    """
    match = _SIZE.match(text.strip())
    if match is None:
        raise ValueError(f"“{text[:40]}” is not a size. Write 64g or 512m.")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def format_size(count: int) -> str:
    """The shortest exact way to write a number of bytes so that `read` reads it back."""
    for unit in ("t", "g", "m", "k"):
        if count and count % _UNITS[unit] == 0:
            return f"{count // _UNITS[unit]}{unit}"
    return str(count)

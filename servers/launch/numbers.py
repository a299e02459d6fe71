"""Numbers in what others write: whole ones, sizes in bytes, and lengths of time (20m, 1h30m)."""

import re
from datetime import datetime

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)


def whole(text: str) -> int | None:
    """The number that up to 18 plain digits are, so that a database can keep it; None otherwise.

    Python's `isdigit` takes digits that `int` refuses (²), and `int` more than 4,300 of them for an
    error (sys.set_int_max_str_digits).
    """
    return int(text) if _WHOLE.fullmatch(text) else None


_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([kmgt]?)i?b?\Z", re.IGNORECASE | re.ASCII)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def read_size(text: str) -> int:
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


GIB = 2**30


def gib(size: float) -> str:
    """ "41.2 GiB"."""
    return f"{gib_number(size)} GiB"


def gib_number(size: float) -> str:
    """ "41.2", for places where the unit stands once for many figures."""
    value = size / GIB
    if value >= 99.95:
        return f"{value:.0f}"
    # Two digits where one would round something that is there to nothing.
    return f"{value:.2f}" if 0 < value < 0.095 else f"{value:.1f}"


def size(count: float) -> str:
    """Of something that may be small: "80 bytes", "412 KiB", "3.1 MiB"."""
    if count >= GIB / 10:
        return gib(count)
    if count < 1024:
        return f"{count:.0f} bytes"
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 / 10 else f"{count / 1024:.0f} KiB"


_DURATION = re.compile(
    r"(?:(\d{1,3})h)?\s*(?:(\d{1,5})m)?\s*(?:(\d{1,6})s)?", re.IGNORECASE | re.ASCII
)
_SECONDS = (3600, 60, 1)


def read(text: str) -> int:
    """Seconds of 20m, 90s or 1h30m; 0 of an empty text and of 0. Raises ValueError.

    A number alone is refused: it could mean minutes as well as seconds.
    """
    cleaned = text.strip()
    if cleaned in ("", "0"):
        return 0
    match = _DURATION.fullmatch(cleaned)
    if match is None or not any(match.groups()):
        raise ValueError(f"“{text[:40]}” is not a length of time. Write 20m, 90s or 1h30m.")
    return sum(int(count or 0) * unit for count, unit in zip(match.groups(), _SECONDS, strict=True))


def format_duration(seconds: int) -> str:
    """The shortest way to write it so that `read` reads it back."""
    parts = []
    for unit, letter in zip(_SECONDS, "hms", strict=True):
        count, seconds = divmod(seconds, unit)
        if count:
            parts.append(f"{count}{letter}")
    return "".join(parts) or "0"


def to_timestamp(moment: datetime | None) -> float | None:
    """Unix seconds."""
    return None if moment is None else moment.timestamp()


def format_moment(moment: datetime, now: datetime, *, shows_today: bool = True) -> str:
    """ "22 Nov 18:04"; with the year where that is another one. Both of the same time zone.

    Without `shows_today` a moment of today is "18:04".
    """
    if not shows_today and moment.date() == now.date():
        return f"{moment:%H:%M}"
    year = "" if moment.year == now.year else f" {moment.year}"
    return f"{moment.day} {moment:%b}{year} {moment:%H:%M}"

"""Lengths of time as people write them (20m, 90s, 1h30m), and moments as pages write them."""

import re
from datetime import datetime

_DURATION = re.compile(
    r"(?:(\d{1,3})h)?\s*(?:(\d{1,5})m)?\s*(?:(\d{1,6})s)?", re.IGNORECASE | re.ASCII
)
_UNITS = (3600, 60, 1)


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
    return sum(int(count or 0) * unit for count, unit in zip(match.groups(), _UNITS, strict=True))


def format_duration(seconds: int) -> str:
    """The shortest way to write it so that `read` reads it back."""
    parts = []
    for unit, letter in zip(_UNITS, "hms", strict=True):
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

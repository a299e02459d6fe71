"""How flags, sizes and numbers are written in a profile's YAML."""

import re
import shlex
from collections.abc import Iterable

from servers.engines.change import is_flag

_SIZE = re.compile(r"([0-9]{1,18})([kmgt]?)", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def flags(text: str) -> tuple[str, ...]:
    """The words of a command line over several lines; a line that begins with # is a remark.

    A backslash at a line's end is allowed. Raises ValueError for a quotation mark that is never
    closed. Rule: POSIX shell quoting, without expansion.
    """
    lines: list[str] = []
    quote = ""
    opened = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not quote and line.lstrip().startswith("#"):
            continue
        before = quote
        quote, is_continued = _end_of(line, quote)
        if quote and not before:
            opened = number
        lines.append(line.rstrip()[:-1] if is_continued else line)
    if quote:
        raise ValueError(f"In line {opened} of the flags a quotation mark is never closed.")
    return tuple(shlex.split("\n".join(lines)))


def _end_of(line: str, quote: str) -> tuple[str, bool]:
    """The quotation mark that is open at the line's end, and whether a lone backslash ends it."""
    is_escaped = False
    for character in line.rstrip():
        if is_escaped:
            is_escaped = False
        elif character == "\\" and quote != "'":
            is_escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
    return quote, is_escaped and not quote


def flags_text(words: Iterable[str]) -> str:
    """One flag with its values a line; `flags` reads it back."""
    rows: list[str] = []
    for word in words:
        if is_flag(word) or not rows:
            rows.append(shlex.quote(word))
        else:
            rows[-1] += f" {shlex.quote(word)}"
    return "\n".join(rows)


def size(text: str) -> int:
    """Bytes of 64g, 512m or 1024, in powers of 1024 as Docker counts. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"“{text}” is not a size. Write 64g or 512m.")
    return int(match[1]) * _UNITS[match[2].lower()]


def size_text(count: int) -> str:
    """The shortest way to write a number of bytes that `size` reads back."""
    for unit in ("t", "g", "m", "k"):
        if count and count % _UNITS[unit] == 0:
            return f"{count // _UNITS[unit]}{unit}"
    return str(count)


def number(text: str) -> int:
    """Raises ValueError for what is not a whole number."""
    if not re.fullmatch(r"-?[0-9]{1,18}", text.strip()):
        raise ValueError(f"“{text}” is not a whole number.")
    return int(text)


def yes_or_no(text: str) -> bool:
    """Raises ValueError for anything but true and false."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"“{text}” is neither true nor false.")
    return text.strip().lower() == "true"

"""Levels of log lines: the one that a line names, else by its words."""

import re
from collections.abc import Iterable, Iterator
from enum import IntEnum

from servers.judge.logs import parsing

_NAMED: dict[str, "Level"]


class Level(IntEnum):
    INFO = 1
    WARNING = 2
    ERROR = 3


_NAMED = {
    "DEBUG": Level.INFO,
    "INFO": Level.INFO,
    "WARNING": Level.WARNING,
    "ERROR": Level.ERROR,
    "CRITICAL": Level.ERROR,
}

# Lines without one of these, in lower case, are no worse than INFO: most of a log, looked at fast.
_HINTS = ("warn", "error", "exception", "critical", "fatal", "traceback", "killed", "segfault")

_TRACEBACK = "Traceback (most recent call last)"
# Python's own last words ("torch.OutOfMemoryError: CUDA …", "KeyError"), other programs' and the
# kernel's first ones.
_ERROR = re.compile(
    r"^(?:[\w.]{0,120}(?:Error|Exception|Exit|Interrupt)(?::|$)"
    r"|(?:fatal |internal |runtime )?error\b|fatal\b|critical\b|killed\b|segmentation fault"
    r"|\*\*\* \w{0,40} ?error)|\berror: |: error\b|\[error\]|\bllama_\w{0,60}: failed\b",
    re.IGNORECASE,
)
_WARNING = re.compile(r"^(?:warn(?:ing)?\b)|\bwarning: |\[warn(?:ing)?\]|\w{1,60}Warning: ", re.I)


def may_be_bad(lowered: str) -> bool:
    """Whether some lines, in lower case and together, may hold a warning or an error."""
    return any(hint in lowered for hint in _HINTS)


def level(line: str) -> Level:
    """The worst of what one stored line says; a line that says nothing of it is INFO."""
    return max(map(_parse_level, parsing.parse_line(line)), default=Level.INFO)


def _parse_level(said: parsing.ParsedLine) -> Level:
    if said.level:
        return _NAMED.get(said.level, Level.INFO)
    if not may_be_bad(said.text.lower()):
        return Level.INFO
    text = said.text.lstrip()
    if _TRACEBACK in text or _ERROR.search(text):
        return Level.ERROR
    return Level.WARNING if _WARNING.search(text) else Level.INFO


def levels(lines: Iterable[str]) -> Iterator[Level]:
    """The level of each of these lines, which follow each other.

    What is indented under the first line of a traceback is part of that error.
    """
    in_traceback = False
    for line in lines:
        if in_traceback and (line[:1].isspace() or not line):
            yield Level.ERROR
            continue
        found = level(line) if in_traceback or may_be_bad(line.lower()) else Level.INFO
        in_traceback = _TRACEBACK in line
        yield found

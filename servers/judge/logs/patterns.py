"""Texts that a run's log must hold, or must not: plain ones, because patterns can take for ever."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from servers.judge.logs import parsing


@dataclass(frozen=True, kw_only=True)
class LogPatternRemark:
    text: str
    line: int | None  # where it stands although it must not; None: it is missing


def search(lines: Iterable[tuple[int, str]], texts: Collection[str]) -> dict[str, int]:
    """The number of the first line that holds each of the texts; those that none holds are left out.

    Upper and lower case are the same, and colours are not looked at.
    """
    open_ones = {text.lower(): text for text in texts}
    found: dict[str, int] = {}
    for number, line in lines:
        if not open_ones:
            break
        lowered = parsing.plain(line).lower()
        for wanted in [each for each in open_ones if each in lowered]:
            found[open_ones.pop(wanted)] = number
    return found


def remarks(
    must: Iterable[str], must_not: Iterable[str], found: Mapping[str, int]
) -> tuple[LogPatternRemark, ...]:
    """What is there and must not be, with its line, and then what is missing."""
    there = [LogPatternRemark(text=text, line=found[text]) for text in must_not if text in found]
    return (*there, *(LogPatternRemark(text=text, line=None) for text in must if text not in found))

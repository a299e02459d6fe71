"""Literals that a pattern requires: cheap to look for before the pattern."""

from collections.abc import Iterable
from re import _constants as codes  # type: ignore[attr-defined, unused-ignore]
from re import _parser as parser  # type: ignore[attr-defined, unused-ignore]
from typing import Any

SHORTEST = 4  # a shorter word is in too many lines


def find_literals(pattern: str) -> tuple[str, ...]:
    """Lower-case words, one of which is in every text that matches; () where there are none."""
    found = _pick_alternatives(parser.parse(pattern))
    return tuple(sorted(found)) if found else ()


def _pick_alternatives(parts: Iterable[Any]) -> frozenset[str] | None:
    """The best set of alternatives among the parts that must all be there."""
    best: frozenset[str] | None = None
    run = ""
    for code, value in [*parts, (None, None)]:
        if code is codes.LITERAL:
            run += chr(value).lower()
            continue
        best = _better(best, frozenset([run]) if len(run) >= SHORTEST else None)
        run = ""
        best = _better(best, _of_part(code, value))
    return best


def _of_part(code: Any, value: Any) -> frozenset[str] | None:
    if code is codes.SUBPATTERN:
        return _pick_alternatives(value[3])
    if code is codes.BRANCH:
        each = [_pick_alternatives(branch) for branch in value[1]]
        known = [words for words in each if words is not None]
        return frozenset().union(*known) if len(known) == len(each) else None
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT) and value[0] > 0:
        return _pick_alternatives(value[2])
    return None


def _better(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """The set whose shortest word is longer."""
    if one is None or other is None:
        return one if other is None else other
    return max(one, other, key=lambda words: min(map(len, words)))

"""Search of many lines for many patterns: only lines that hold a pattern's words are looked at."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from servers.judge.logs.failure_catalog import Pattern

_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ([KMGT])i?B")
_POWERS = "KMGT"


def has_room(room: str, need: str) -> bool:
    """Whether "14.71 GiB" is more than twice "1.19 GiB"; False where one of them is no size.

    Twice, because an allocator finds no piece of memory that is nearly all of what is left.
    """
    sizes = [_SIZE.fullmatch(each or "") for each in (room, need)]
    have, want = (float(size[1]) * 1024 ** _POWERS.index(size[2]) if size else 0 for size in sizes)
    return 0 < 2 * want < have


class LineIndex:
    """Lines in lower case. A word is looked up in all of them at once."""

    def __init__(self, lowered: Sequence[str]) -> None:
        self._text = "\n".join(lowered)
        self._every = range(len(lowered))
        self._starts: list[int] = []
        start = 0
        for line in lowered:
            self._starts.append(start)
            start += len(line) + 1
        self._known: dict[str, tuple[int, ...]] = {}

    def find(self, patterns: Iterable[Pattern]) -> Sequence[int]:
        """The lines, in their order, of which one of the patterns may match."""
        found: set[int] = set()
        for pattern in patterns:
            if not pattern.literals:
                return self._every
            for word in pattern.literals:
                found.update(self._look_up(word))
        return sorted(found)

    def _look_up(self, word: str) -> tuple[int, ...]:
        if word not in self._known:
            self._known[word] = tuple(self._walk(word))
        return self._known[word]

    def _walk(self, word: str) -> Iterable[int]:
        at = self._text.find(word)
        while at >= 0:
            line = bisect_right(self._starts, at) - 1
            yield line
            if line + 1 >= len(self._starts):
                return
            at = self._text.find(word, self._starts[line + 1])

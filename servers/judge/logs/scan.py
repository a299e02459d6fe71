"""Log search by text, pattern, level and rank, a block at a time."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from servers.judge.logs import parsing
from servers.judge.logs.parsing import Level


class PatternError(Exception):
    """A pattern that is none; the text is fit for a person."""


@dataclass(frozen=True, kw_only=True)
class Query:
    text: str = ""
    is_pattern: bool = False  # a regular expression, as Python writes them
    is_exact: bool = False  # whether upper and lower case differ
    level: Level = Level.INFO  # this one or worse; INFO: any
    worst: Level = Level.ERROR  # and no worse than this
    rank: str = ""  # as logtext names ranks; "": any


class Scan:
    """One search. Colours are not looked at; of a line, a pattern sees its first 4,096 characters.

    Raises PatternError when the pattern cannot be read.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._text = query.text if query.is_exact else query.text.lower()
        self._pattern = _compile(query) if query.is_pattern and query.text else None
        # What a line must hold to be of the rank. "rank3" stands as "rank=3" in some lines.
        parts = query.rank.split()
        self._rank_parts = [part for part in parts if not part.startswith("rank")]

    def numbers(self, first: int, block: str) -> Iterator[int]:
        """The lines that are wanted among these records (`<at> <stream> <text>`, one a line)."""
        plain = parsing.plain(block)
        if not self._may_hold(plain):
            return
        texts = [record.split(" ", 2)[2] for record in plain.split("\n")]
        wanted = enumerate(texts, first)
        if self._query.level > Level.INFO:
            found = zip(wanted, parsing.levels(texts), strict=True)
            least, most = self._query.level, self._query.worst
            wanted = (each for each, level in found if least <= level <= most)  # type: ignore[assignment]
        for number, text in wanted:
            if self._holds(text) and self._is_of_rank(text):
                yield number

    def _may_hold(self, plain: str) -> bool:
        query = self._query
        if any(part not in plain for part in self._rank_parts):
            return False
        is_bad = query.level > Level.INFO
        lowered = "" if query.is_exact and not is_bad else plain.lower()
        if is_bad and not parsing.may_be_bad(lowered):
            return False
        return self._pattern is not None or self._text in (plain if query.is_exact else lowered)

    def _holds(self, text: str) -> bool:
        if self._pattern is not None:
            return self._pattern.search(text[: parsing.LONGEST]) is not None
        return self._text in (text if self._query.is_exact else text.lower())

    def _is_of_rank(self, text: str) -> bool:
        rank = self._query.rank
        return not rank or any(each.rank == rank for each in parsing.parse_line(text))


# Ranks name themselves early; to read every prefix of a long log would take seconds.
_RANKS_WITHIN = 20_000  # lines
_MOST_RANKS = 256
_MOST_MARKS = 5000

# A pattern, and texts in lower case: a line without any of them cannot match.
type Known = tuple[str, Sequence[str]]


class LogOutline:
    """Where a log's errors and warnings are, and which ranks speak in it. Fed with blocks.

    `known` are lines to be told apart: of each that is found, its number and which it is.
    """

    def __init__(self, *, after: int, upto: int, known: Sequence[Known] = ()) -> None:
        self.errors: list[int] = []
        self.warnings: list[int] = []
        self.found: list[tuple[int, int]] = []
        self._known = [(re.compile(pattern), tuple(texts)) for pattern, texts in known]
        self._ranks: set[str] = set()
        self._after, self._upto = after, upto

    @property
    def ranks(self) -> list[str]:
        return sorted(self._ranks, key=lambda rank: (len(rank), rank))[:_MOST_RANKS]

    def add(self, first: int, block: str) -> None:
        """These records (`<at> <stream> <text>`, one a line) are the lines from `first` on.

        Without colours, see logtext.plain.
        """
        texts = [record.split(" ", 2)[2] for record in block.split("\n")]
        if first <= _RANKS_WITHIN:
            self._ranks.update(each.rank for text in texts for each in parsing.parse_line(text))
            self._ranks.discard("")
        lowered = block.lower()
        self._find(first, texts, lowered)
        if not parsing.may_be_bad(lowered):
            return
        for number, level in enumerate(parsing.levels(texts), first):
            if level > Level.INFO and self._after < number <= self._upto:
                self._mark(number, level)

    def _find(self, first: int, texts: Sequence[str], lowered: str) -> None:
        here = [
            (which, pattern, parts)
            for which, (pattern, parts) in enumerate(self._known)
            if not parts or any(part in lowered for part in parts)
        ]
        if not here:
            return
        for number, text in enumerate(texts, first):
            if not self._after < number <= self._upto or len(self.found) >= _MOST_MARKS:
                continue
            low = text.lower()
            for which, pattern, parts in here:
                may_be = not parts or any(part in low for part in parts)
                if may_be and pattern.search(text[: parsing.LONGEST]):
                    self.found.append((number, which))
                    break

    def _mark(self, number: int, level: Level) -> None:
        marks = self.errors if level is Level.ERROR else self.warnings
        if len(marks) < _MOST_MARKS:
            marks.append(number)


def _compile(query: Query) -> re.Pattern[str]:
    try:
        return re.compile(query.text, 0 if query.is_exact else re.IGNORECASE)
    except re.error as error:
        raise PatternError(f"This is no regular expression: {error}.") from error
    except (OverflowError, RecursionError) as error:
        raise PatternError("This regular expression is too large.") from error

"""Tokens of a shell line: words and their pieces, operators, here-documents."""

from dataclasses import dataclass


class ShellError(ValueError):
    """Text that is no complete shell command; `offset` is where the trouble begins.

    `is_certain`: even where the text does not look like a launch, it would start one.
    """

    def __init__(self, reason: str, offset: int, *, is_certain: bool = False) -> None:
        super().__init__(reason)
        self.is_certain = is_certain
        self.reason = reason
        self.offset = offset


@dataclass(frozen=True, kw_only=True)
class Text:
    text: str
    quoted: bool


@dataclass(frozen=True, kw_only=True)
class Variable:
    """$NAME, ${NAME}, ${NAME:-argument}, ${NAME[@]}; `raw` is how it was written."""

    raw: str
    name: str
    index: str = ""
    operator: str = ""
    argument: "tuple[Piece, ...]" = ()
    quoted: bool


@dataclass(frozen=True, kw_only=True)
class Substitution:
    """$(command), `command` or $((sum)): never run."""

    raw: str


Piece = Text | Variable | Substitution


@dataclass(frozen=True, kw_only=True)
class Word:
    pieces: tuple[Piece, ...]
    offset: int
    end: int


@dataclass(frozen=True, kw_only=True)
class ArrayAssignment:
    name: str
    adds: bool
    words: tuple[Word, ...]
    offset: int


@dataclass(frozen=True, kw_only=True)
class Operator:
    text: str
    offset: int


@dataclass(frozen=True, kw_only=True)
class HereDocument:
    body: str
    is_literal: bool  # its end was quoted: no variables inside
    offset: int


Token = Word | ArrayAssignment | Operator | HereDocument

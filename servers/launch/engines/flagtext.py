"""An engine's flags as a text of several lines that may say why: a comment behind a flag, or the
lines above it, is the reason for it."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from servers.launch.engines.change import is_flag


@dataclass(frozen=True, kw_only=True)
class FlagRow:
    text: str
    why: str  # "" where nobody has said

    def __str__(self) -> str:
        return f"{self.text}  # {self.why}" if self.why else self.text


@dataclass(frozen=True, kw_only=True)
class Flags:
    words: tuple[str, ...]
    reasons: dict[str, str]  # flag as typed -> why


def flags(text: str) -> Flags:
    """The words of a command line that is written over several lines, or pasted as one.

    A backslash at a line's end is optional. Raises ValueError for an open quotation mark.
    Rule: POSIX shell quoting, without expansion.
    """
    words: list[str] = []
    reasons: dict[str, str] = {}
    above: list[str] = []
    for number, line in _lines(text):
        code, comment = _split(line.removesuffix("\\").rstrip() + "\n", number)
        if not code.strip():
            above = [*above, comment] if comment else []
            continue
        try:
            found = shlex.split(code)
        except ValueError:
            raise ValueError(_describe_unclosed(number)) from None
        names = [word.partition("=")[0] for word in found if is_flag(word)]
        why = " ".join([*above, comment]).strip()
        if why and names:
            reasons[names[0]] = why
        above = []
        words += found
    return Flags(words=tuple(words), reasons=reasons)


def flag_rows(words: tuple[str, ...], reasons: Mapping[str, str]) -> list[FlagRow]:
    """One flag with its values a row."""
    rows: list[tuple[str, str]] = []  # name, text
    for word in words:
        if is_flag(word) or not rows:
            rows.append((word.partition("=")[0], shlex.quote(word)))
        else:
            name, text = rows[-1]
            rows[-1] = (name, f"{text} {shlex.quote(word)}")
    return [FlagRow(text=text, why=reasons.get(name, "")) for name, text in rows]


def flags_text(words: tuple[str, ...], reasons: Mapping[str, str]) -> str:
    """One flag a line with the reason behind it; `flags` reads it back."""
    return "\n".join(map(str, flag_rows(words, reasons)))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Each logical line with its number: a quotation may go on over several, such as JSON."""
    pending = ""
    first = 1
    # Not splitlines(): a quoted value may hold a line end of another kind.
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if not pending:
            first = number
        pending += line
        if _is_open(pending):
            pending += "\n"
            continue
        yield first, pending.rstrip(" \t")
        pending = ""
    if pending:
        raise ValueError(_describe_unclosed(first))


def _is_open(text: str) -> bool:
    return _scan(text)[1]


def _split(line: str, number: int) -> tuple[str, str]:
    """The line and its comment."""
    at, is_open = _scan(line)
    if is_open:
        raise ValueError(_describe_unclosed(number))
    return (line, "") if at is None else (line[:at], line[at:].strip("# \n"))


def _scan(text: str) -> tuple[int | None, bool]:
    """Where a comment begins, and whether a quotation is open at the end."""
    quote = ""
    escaped = False
    for at, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#" and (at == 0 or text[at - 1].isspace()):
            return at, False
    return None, bool(quote)


def _describe_unclosed(number: int) -> str:
    return f"Line {number}: a quotation mark is opened and never closed."

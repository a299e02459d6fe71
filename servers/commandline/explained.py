"""Text boxes of a profile whose lines may say why: a comment after a flag or a variable, or the
lines above it, is the reason for it."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from servers.commandline.words import VARIABLE, WordsError
from servers.engines.change import is_flag

_PREFIX = re.compile(r"^(?:export\s+|-e\s+|--env[ =])")


@dataclass(frozen=True, kw_only=True)
class Row:
    text: str
    why: str  # "" where nobody has said

    def __str__(self) -> str:
        return f"{self.text}  # {self.why}" if self.why else self.text


@dataclass(frozen=True, kw_only=True)
class Flags:
    words: tuple[str, ...]
    reasons: dict[str, str]  # flag as typed -> why


@dataclass(frozen=True, kw_only=True)
class Environment:
    values: dict[str, str]
    reasons: dict[str, str]  # variable -> why


def flags(text: str) -> Flags:
    """The words of a command line that is written over several lines, or pasted as one.

    A backslash at a line's end is optional. Raises WordsError for an open quotation mark.
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
            raise WordsError(_unclosed(number)) from None
        names = [word.partition("=")[0] for word in found if is_flag(word)]
        why = " ".join([*above, comment]).strip()
        if why and names:
            reasons[names[0]] = why
        above = []
        words += found
    return Flags(words=tuple(words), reasons=reasons)


def flag_rows(words: tuple[str, ...], reasons: Mapping[str, str]) -> list[Row]:
    """One flag with its values a row."""
    rows: list[tuple[str, str]] = []  # name, text
    for word in words:
        if is_flag(word) or not rows:
            rows.append((word.partition("=")[0], shlex.quote(word)))
        else:
            name, text = rows[-1]
            rows[-1] = (name, f"{text} {shlex.quote(word)}")
    return [Row(text=text, why=reasons.get(name, "")) for name, text in rows]


def flags_text(words: tuple[str, ...], reasons: Mapping[str, str]) -> str:
    """One flag a line with the reason behind it; `flags` reads it back."""
    return "\n".join(map(str, flag_rows(words, reasons)))


def environment(text: str) -> Environment:
    """NAME=value lines; `export` and `-e` in front and quotation marks around are taken off.

    Raises WordsError for a line without =, a bad name, or a name that comes twice.
    """
    values: dict[str, str] = {}
    reasons: dict[str, str] = {}
    above: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip().removesuffix("\\").rstrip()
        if not line or line.startswith("#"):
            above = [*above, line.lstrip("# ").rstrip()] if line else []
            continue
        name, value, comment = _assignment(line, number)
        if name in values:
            raise WordsError(f"Line {number}: {name} is set twice.")
        values[name] = value
        if why := " ".join([*above, comment]).strip():
            reasons[name] = why
        above = []
    return Environment(values=values, reasons=reasons)


def environment_text(values: Mapping[str, str], reasons: Mapping[str, str]) -> str:
    """NAME=value lines with their reasons; `environment` reads them back."""
    return "\n".join(map(str, variable_rows(values, reasons)))


def variable_rows(values: Mapping[str, str], reasons: Mapping[str, str]) -> list[Row]:
    return [
        Row(text=f"{name}={_quoted(value)}", why=reasons.get(name, ""))
        for name, value in values.items()
    ]


def _assignment(line: str, number: int) -> tuple[str, str, str]:
    name, equals, rest = _PREFIX.sub("", line).partition("=")
    if not equals:
        raise WordsError(f"Line {number}: “{line[:60]}” is not NAME=value.")
    if not VARIABLE.match(name):
        raise WordsError(f"Line {number}: “{name[:60]}” is not a name for a variable.")
    quoted = re.match(r"""(['"])(.*?)\1(?:\s+#\s*(.*))?\Z""", rest)
    if quoted is not None:
        return name, quoted[2], (quoted[3] or "").strip()
    value, _hash, comment = rest.partition(" #")
    return name, value.rstrip(), comment.strip()


def _quoted(value: str) -> str:
    """Only where the bare value would be read as something else."""
    is_misread = " #" in value or value != value.strip() or value[:1] in "'\"" or value[-1:] == "\\"
    if not value or not is_misread:
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Each logical line with its number: a quotation may go on over several, such as JSON."""
    pending = ""
    first = 1
    for number, line in enumerate(text.splitlines(), start=1):
        if not pending:
            first = number
        pending += line.rstrip()
        if _is_open(pending):
            pending += "\n"
            continue
        yield first, pending
        pending = ""
    if pending:
        raise WordsError(_unclosed(first))


def _is_open(text: str) -> bool:
    return _scan(text)[1]


def _split(line: str, number: int) -> tuple[str, str]:
    """The line and its comment."""
    at, is_open = _scan(line)
    if is_open:
        raise WordsError(_unclosed(number))
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


def _unclosed(number: int) -> str:
    return f"Line {number}: a quotation mark is opened and never closed."

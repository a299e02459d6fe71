"""The text boxes of a profile whose lines may say why: flags and environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from servers.launch.commandline.text_boxes import VARIABLE, WordsError
from servers.launch.engines import flagtext
from servers.launch.engines.flagtext import FlagRow, Flags

_PREFIX = re.compile(r"^(?:export\s+|-e\s+|--env[ =])")


@dataclass(frozen=True, kw_only=True)
class Environment:
    values: dict[str, str]
    reasons: dict[str, str]  # variable -> why


def flags(text: str) -> Flags:
    """As servers.launch.engines.flagtext reads it. Raises WordsError."""
    try:
        return flagtext.flags(text)
    except ValueError as error:
        raise WordsError(str(error)) from None


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


def variable_rows(values: Mapping[str, str], reasons: Mapping[str, str]) -> list[FlagRow]:
    return [
        FlagRow(text=f"{name}={_quote_value(value)}", why=reasons.get(name, ""))
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


def _quote_value(value: str) -> str:
    """Only where the bare value would be read as something else."""
    is_misread = " #" in value or value != value.strip() or value[:1] in "'\"" or value[-1:] == "\\"
    if not value or not is_misread:
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'

"""Output of the terminal: tables, sizes, times, a bar; and text of others made safe for it."""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, TextIO

# One that its line does not end is none: it would take with it what follows.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)|[@-Z\\^_])")
# C0 but the tab and the line's end, C1 (8-bit sequences), what turns the direction of writing or
# ends a line elsewhere.
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def readable(text: str) -> str:
    """Without the sequences of a terminal, and with a sign for each other character that it obeys."""
    return _HARMFUL.sub(_sign, _SEQUENCE.sub("", text))


def strip_controls(text: str) -> str:
    """A piece of a text that is still to go on, where a sequence may have been cut in two."""
    return _HARMFUL.sub("", text)


def readable_all(said: Any) -> Any:
    """The same of every text of an answer."""
    if isinstance(said, str):
        return readable(said)
    if isinstance(said, list):
        return [readable_all(each) for each in said]
    if isinstance(said, dict):
        return {name: readable_all(each) for name, each in said.items()}
    return said


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"


_COLOURS = {
    "ready": 32, "complete": 32, "ok": 32,
    "failed": 31, "leaked": 31, "partial": 33, "residual": 33, "attention": 33, "unhealthy": 33,
    "asleep": 36, "waking": 36, "queued": 36, "pulling": 36, "creating": 36, "starting": 36, "stopping": 36, "draining": 36,
}  # fmt: skip


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they must be; the last one takes what is left."""
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    lines = []
    for number, row in enumerate([heads, *rows]):
        cells = [
            each.ljust(width) if at + 1 < len(row) else each
            for at, (each, width) in enumerate(zip(row, widths))  # noqa: B905 - Python 3.9
        ]
        text = "  ".join(cells).rstrip()
        lines.append(tint(text, 2) if number == 0 else _colour(text, row))
    return "\n".join(lines)


def _colour(text: str, row: Sequence[str]) -> str:
    for cell in row:
        word = cell.split(" ")[0]
        if word in _COLOURS:
            return text.replace(f" {word}", " " + tint(word, _COLOURS[word]), 1)
    return text


def tint(text: str, colour: int, out: TextIO | None = None) -> str:
    """Coloured where somebody looks at `out`, standard output unless said otherwise."""
    if not (out or sys.stdout).isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"


def claim(found: dict[str, Any]) -> str:
    """ "ada until 18:00"; with the day where that is another one."""
    until = datetime.fromisoformat(found["until"].replace("Z", "+00:00")).astimezone()
    is_today = until.date() == datetime.now().date()  # noqa: DTZ005
    form = "%H:%M" if is_today else "%-d %b %H:%M"
    return f"{found['by']} until {until.strftime(form)}"


def gib(size: int | None) -> str:
    return "–" if size is None else f"{size / 2**30:.1f} GiB"


def ago(moment: str | None) -> str:
    """ "12 min" since then."""
    if not moment:
        return ""
    then = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    return span((datetime.now(timezone.utc) - then).total_seconds())  # noqa: UP017 - Python 3.9


def span(seconds: float) -> str:
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, size)
        if amount or (unit == "s" and not parts):
            parts.append(f"{amount} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def state(server: dict[str, Any]) -> str:
    run = server["run"]
    if run is None:
        return str(server["state"])
    if run["unhealthy"]:
        return f"unhealthy: {run['unhealthy']}"
    if run.get("sleep"):
        return str(run["sleep"])
    if run["phase"]:
        return f"{server['state']}: {run['phase'].replace('_', ' ')}{percent(run['percent'])}"
    since = run["ready_at"] if server["state"] == "ready" else run["ended_at"]
    return f"{server['state']} {ago(since)}".strip()


def percent(value: int | None) -> str:
    return "" if value is None else f" {value} %"


def meter(percent: int, width: int = 24) -> str:
    """ "[######------]" """
    full = max(0, min(100, percent)) * width // 100
    return f"[{'#' * full}{'-' * (width - full)}]"


def bar(text: str) -> None:
    """One line that is written over by the next; nothing where nobody looks."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{readable(text)}")
        sys.stderr.flush()


def write(text: str) -> None:
    sys.stdout.write(text + "\n")


def write_json(value: Any) -> int:
    """The exit code of a command that has nothing else to say."""
    write(json.dumps(value, ensure_ascii=False, indent=2))
    return 0


def answer(args: Namespace, said: Any, text: str) -> int:
    """What came of a command, for programs or for people."""
    if args.json:
        return write_json(said)
    write(text)
    return 0


def answer_rows(
    args: Namespace, said: Any, heads: Sequence[str], rows: Iterable[Sequence[str]]
) -> int:
    """`rows` are not looked at for programs, whom an older inferdash may lack something of them."""
    return write_json(said) if args.json else answer(args, said, table(heads, list(rows)))


def aside(text: str) -> None:
    """To who looks, beside what is asked for."""
    sys.stderr.write(readable(text))

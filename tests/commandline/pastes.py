"""Pastes as people make them, with what must come out. The files under cases/ say both.

A case is "### a sentence", the paste, and "--- gives" with one JSON object a command (fields that
are null, empty or false left out), or "--- fails at LINE:COLUMN" with the reason.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FILES = Path(__file__).parent / "cases"
_OUTCOME = re.compile(r"^--- (gives|fails at (\d+):(\d+))\n", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class PasteCase:
    name: str
    paste: str
    outcome: re.Match[str]
    expected: str


def cases(outcome: str) -> Iterator[PasteCase]:
    """Those that give something, or that fail."""
    for file in sorted(_FILES.glob("*.txt")):
        for part in re.split(r"^### ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            name, _, rest = part.partition("\n")
            match = _OUTCOME.search(rest)
            assert match is not None, name
            if match[1].startswith(outcome):
                yield PasteCase(
                    name=f"{file.stem}: {name}",
                    paste=rest[: match.start()],
                    outcome=match,
                    expected=rest[match.end() :].strip(),
                )

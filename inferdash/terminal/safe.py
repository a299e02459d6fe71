"""Text of others made safe for a terminal.

An engine's log repeats what people ask of it, so that a stranger's words come to a terminal here:
they could fill its clipboard, name its window, or hide what stands above.
"""

from __future__ import annotations

import re
from typing import Any

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

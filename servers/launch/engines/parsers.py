"""Parsers of tool calls and reasoning that a model's format needs, by engine.

As the engines' own lists of parsers name them; a model that is not known here is nobody's guess.
"""

import re
from typing import Any, Literal

from servers.launch.tables import read_table

type Kind = Literal["tools", "reasoning"]

FLAGS: dict[Kind, str] = {"tools": "--tool-call-parser", "reasoning": "--reasoning-parser"}


# Rows with a pattern and, of each kind, the parsers by engine.
FAMILIES: tuple[dict[str, Any], ...] = tuple(read_table(__file__))


def parser(engine: str, kind: Kind, model: str) -> str:
    """The parser's name for this engine; "" where none is known. `model` names its family."""
    for family in FAMILIES:
        if re.search(family["pattern"], model.lower()):
            return str(family.get(kind, {}).get(engine, ""))
    return ""

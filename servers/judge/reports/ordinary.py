"""Ordinary words: those of engines, logs and the whole world, which tell of nobody."""

import re
from functools import cache
from pathlib import Path

from servers.launch.engines import SERVING
from servers.launch.engines.flaglist import all_shipped
from servers.launch.yaml_files import load_yaml

_FILE = Path(__file__).parent / "words.yaml"
_SHORTEST = 3


@cache
def _load_file() -> dict[str, frozenset[str]]:
    said = load_yaml(_FILE.read_text(encoding="utf-8"))
    return {key: frozenset(words.split()) for key, words in said.items()}


def load_words(key: str) -> frozenset[str]:
    """The words under a key of words.yaml."""
    return _load_file()[key]


@cache
def _load_ordinary() -> frozenset[str]:
    """With those that flags are made of."""
    names = (name for engine in SERVING for each in all_shipped(engine) for name in each.names)
    parts = {part.lower() for name in names for part in re.split(r"[-_.]", name)}
    return frozenset(part for part in parts if len(part) >= _SHORTEST) | load_words("ordinary")


def is_ordinary(name: str) -> bool:
    """Whether hiding the word wherever it stands would hide what has to do with nobody."""
    return len(name) < _SHORTEST or name.lower() in _load_ordinary()

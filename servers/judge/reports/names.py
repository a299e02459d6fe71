"""Names in reports: ordinary words, which tell of nobody, stand-ins for others, and those of models."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from servers.launch.engines import SERVING
from servers.launch.engines.flaglist import all_shipped
from servers.launch.tables import read_table

_FILE = Path(__file__).parent / "words.yaml"
_SHORTEST = 3


@cache
def _load_file() -> dict[str, frozenset[str]]:
    said = read_table(_FILE)
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


class StandIns:
    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._counts = Counter[str]()

    def get(self, kind: str, name: str) -> str:
        """ "user1": the same for the same name, whenever it is wanted."""
        return f"{kind}{self.number(kind, name)}"

    def number(self, kind: str, name: str) -> int:
        """From 1; the same for the same name."""
        if (kind, name) not in self._given:
            self._counts[kind] += 1
            self._given[kind, name] = str(self._counts[kind])
        return int(self._given[kind, name])


_FOLDERS = load_words("accounts") | load_words("model_folders")
_TAG = re.compile(r"(?<=[^/\\]):[\w.-]{1,64}\Z")  # acme/name:Q4_K_M of llama.cpp and Ollama
_MODEL_FILE = re.compile(r"(?i)(?:-\d{5}-of-\d{5})?\.(?:gguf|safetensors|bin)\Z")
_FORMAT = (
    r"(?:gguf|awq|gptq|exl[23]|nvfp4|mxfp[48]|fp(?:4|8|16|32)|bf16|f(?:16|32)|int[48]|[1-8]bit|"
    r"(?:ud-)?i?q\d(?:_[0-9a-z]{1,4}){0,3})"
)
_FORMATS = re.compile(rf"(?i)(?:[-_.]{_FORMAT})+\Z")
_FORMAT_ALONE = re.compile(rf"(?i){_FORMAT}\Z|[0-9a-f]{{40,64}}\Z")
# The folder of the Hub's cache.
_CACHED = re.compile(r"models--(.+?)--(.+)\Z")


@dataclass(frozen=True, kw_only=True)
class ModelWords:
    """Words to hide. "": there is none."""

    names: tuple[str, ...] = ()  # wherever they stand
    ordinary: str = ""  # only where a model is named
    owner: str = ""  # on the Hub


def read_model(name: str) -> ModelWords:
    """Of a name on the Hub, a path, or a served name. What only tells of the format is not hidden."""
    parts = [each for each in re.split(r"[/\\]+", _TAG.sub("", name)) if each]
    if cached := next(filter(None, map(_CACHED.match, parts)), None):
        parts = [cached[1], cached[2]]
    is_path = not cached and (len(parts) > 2 or bool(re.match(r"[./~\\]|[A-Za-z]:\\", name)))
    words = [_FORMATS.sub("", _MODEL_FILE.sub("", part)) for part in reversed(parts)]
    names = [word for word in (words if is_path else words[:1]) if _tells(word)][:1]
    # The folder of a file is called as its model, or as who made it.
    if names == words[:1] and len(words) > 1 and is_path and _MODEL_FILE.search(parts[-1]):
        names += [words[1]] if _tells(words[1]) else []
    owner = words[1] if len(words) == 2 and not is_path else ""
    is_word = not names and words[:1] and is_ordinary(words[0]) and words[0] not in _FOLDERS
    return ModelWords(
        names=tuple(names),
        ordinary=words[0] if is_word else "",
        owner=owner if owner.lower() not in _FOLDERS else "",
    )


def _tells(word: str) -> bool:
    return not (
        len(word) < _SHORTEST
        or word.lower() in _FOLDERS
        or is_ordinary(word)
        or _FORMAT_ALONE.match(word)
    )

"""Flags that hold entries beside each other, such as adapters: a change of one keeps the others."""

import json
from collections.abc import Iterable

# vLLM, SGLang: all entries stand behind one flag.
_BEHIND_ONE = ("--lora-modules", "--lora-paths", "--lora-target-modules", "--allowed-media-domains")
# vLLM, llama.cpp: each entry stands behind a flag of its own.
_ONE_EACH = (
    "--middleware",
    *("--override-kv", "--lora", "--lora-scaled", "--control-vector", "--control-vector-scaled"),
    *(
        "--override-tensor",
        "-ot",
        "--spec-draft-override-tensor",
        "--override-tensor-draft",
        "-otd",
    ),
    *("--logit-bias", "-l", "--dry-sequence-breaker"),
)


def holds(name: str) -> bool:
    """Whether the flag keeps what it holds when it is given once more, or could."""
    return _add_dashes(name) in (*_BEHIND_ONE, *_ONE_EACH)


def is_repeated(name: str) -> bool:
    """Whether each entry stands behind a flag of its own."""
    return _add_dashes(name) in _ONE_EACH


def words(name: str, held: Iterable[tuple[str, ...]], values: Iterable[str]) -> tuple[str, ...]:
    """The flag with what it holds and these values; one of the same name takes its place.

    `held` are the values behind each flag of this name. A name is what stands before the equals
    sign, as in sql=/adapters/sql, or what a JSON object says under "name".
    """
    is_each = is_repeated(name)
    old = list(held) if is_each else [(value,) for each in held for value in each]
    entries = {_name(each): each for each in old if each}
    entries |= {_name((value,)): (value,) for value in values}
    if is_each:
        return tuple(word for each in entries.values() for word in (name, *each))
    return (name, *(value for each in entries.values() for value in each))


def _name(entry: tuple[str, ...]) -> str:
    first = entry[0]
    if first.startswith("{"):
        try:
            said = json.loads(first)
        except ValueError:
            return first
        return str(said["name"]) if isinstance(said, dict) and "name" in said else first
    return first.partition("=")[0]


def _add_dashes(name: str) -> str:
    return name.replace("_", "-") if name.startswith("--") else name

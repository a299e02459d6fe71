"""An engine's words with checkpoint, served name, host and port taken out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from servers.launch.commandline.tokens import EngineKey
from servers.launch.tables import freeze, read_table

_TABLE = freeze(read_table(__file__))
# vLLM's options that take several words, so that the last one is no checkpoint.
_SEVERAL = ("--served-model-name", "--lora-modules", "--allowed-origins", "--middleware")


@dataclass(frozen=True, kw_only=True)
class EngineFlags:
    """None is what the words do not say; `flags` is the rest, in its order."""

    engine: EngineKey
    checkpoint: str | None = None
    served_name: str | None = None
    host: str | None = None
    port: str | None = None
    flags: tuple[str, ...] = ()
    # Variables of these fields, whether their flags outrank them or not.
    variables: frozenset[str] = frozenset()

    @property
    def port_number(self) -> int:
        """0 where no port is told, or what is told is none."""
        told = self.port or ""
        is_port = told.isascii() and told.isdigit() and len(told) < 6 and int(told) < 65536
        return int(told) if is_port else 0


def split(
    engine: EngineKey, words: tuple[str, ...], env: Mapping[str, str | None] | None = None
) -> EngineFlags:
    """Take out what a profile keeps in fields of its own, also where variables say it.

    Several served names stay among the flags: a profile has room for one.
    """
    said = _split(engine, words)
    of_engine = _TABLE["variables"].get(engine, {})
    told = {name: value for name in of_engine if (value := (env or {}).get(name))}
    fields: dict[str, Any] = {of_engine[name]: value for name, value in told.items()}
    missing = {name: value for name, value in fields.items() if getattr(said, name) is None}
    return replace(said, **missing, variables=frozenset(told))


def _split(engine: EngineKey, words: tuple[str, ...]) -> EngineFlags:
    rest, checkpoint = _positional(engine, words)
    rest, named = _take_flag(rest, _TABLE["checkpoint"][engine])
    rest, served_name = _take_flag(rest, _TABLE["served_name"][engine])
    rest, host = _take_flag(rest, ("--host",), most=1)
    rest, port = _take_flag(rest, ("--port",), most=1)
    return EngineFlags(
        engine=engine,
        checkpoint=checkpoint or named,
        served_name=served_name,
        host=host,
        port=port,
        flags=rest,
    )


def _positional(engine: EngineKey, words: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """A checkpoint without a flag: the first word, or with vLLM a last one that is no value."""
    if engine == "llamacpp" or not words:
        return words, None
    if not words[0].startswith("-"):
        return words[1:], words[0]
    if engine != "vllm":
        return words, None
    last = len(words) - 1
    is_beside_value = last >= 2 and not any(w.startswith("-") for w in words[last - 1 :])
    if is_beside_value and words[last - 2] not in _SEVERAL:
        return words[:last], words[last]
    return words, None


def _take_flag(
    words: tuple[str, ...], names: tuple[str, ...], *, most: int | None = None
) -> tuple[tuple[str, ...], str | None]:
    """The words without the flag of these names that has one value; the last one counts.

    `most`: what follows so many values are words of their own. None: all values are the flag's.
    """
    found: str | None = None
    rest: list[str] = []
    at = 0
    while at < len(words):
        flag, equals, value = words[at].partition("=")
        if not _is(flag, names):
            rest.append(words[at])
            at += 1
            continue
        values = [value] if equals else _values(words, at + 1)[:most]
        at += 1 if equals else 1 + len(values)
        if len(values) == 1:
            found = values[0]
        else:
            rest += [flag, *values]
    return tuple(rest), found


def _is(flag: str, names: tuple[str, ...]) -> bool:
    return flag in names or (flag.startswith("--") and re.sub("_", "-", flag) in names)


def _values(words: tuple[str, ...], at: int) -> list[str]:
    stop = at
    while stop < len(words) and not words[stop].startswith("-"):
        stop += 1
    return list(words[at:stop])

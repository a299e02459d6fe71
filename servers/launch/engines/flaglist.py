"""Flags and variables of one version of an engine."""

import difflib
import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, Self

type Release = tuple[int, ...]

# Repositories whose tags are the engine's versions; a mirror keeps the last part of the name.
_REPOSITORIES = {
    "vllm": ("vllm-openai", "vllm-openai-cpu", "vllm-cpu", "vllm"),
    "sglang": ("sglang",),
}
# Their tags count container releases: 26.05-py3.
_OTHER_NUMBERS = ("nvcr.io/",)
_TAG = re.compile(r"v?([0-9]+\.[0-9]+(?:\.[0-9]+)?(?:\.?(?:post|rc)[0-9]+)?)(?:-.*)?")
_RELEASE = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})+)(?![0-9])")


def of_image(engine: str, image: str) -> str:
    """The version that the tag names: "0.5.12" for lmsysorg/sglang:v0.5.12-cu130.

    "" when it names none: latest, nightly, a digest, a fork's own image.
    """
    reference = image.partition("@")[0]
    path, _, tag = reference.rpartition(":")
    if not path or "/" in tag or reference.startswith(_OTHER_NUMBERS):
        return ""
    if path.rsplit("/", 1)[-1] not in _REPOSITORIES.get(engine, ()):
        return ""
    found = _TAG.fullmatch(tag)
    return found[1] if found else ""


def read_release(version: str) -> Release | None:
    """The numbers of a version, to compare: (0, 5, 10) for "0.5.10.post1" and "v0.5.10-cu130".

    None for what cannot be placed between releases: "", a development build, a commit.
    """
    found = _RELEASE.match(version)
    if found is None or "dev" in version:
        return None
    return tuple(int(number) for number in found[1].split("."))


type Takes = Literal["none", "one", "optional", "many", "unknown"]

SHIPPED = Path(__file__).with_name("flags")
# A word that shares less with a flag than this is no misspelling of it.
LIKENESS = 0.7


@dataclass(frozen=True, kw_only=True)
class Flag:
    """`choices` are all that the engine accepts; `known` those it lists beside others.

    `type` is "int", "float", "size" (8k, 1M), "json" ...; a "?" at its end allows None, and ""
    is a text or not known. `default` and `help` are as the engine prints them.
    """

    names: tuple[str, ...]  # the first one stands for the flag
    off: tuple[str, ...] = ()  # --no-x beside --x
    takes: Takes = "one"
    type: str = ""
    choices: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    default: str = ""
    help: str = ""
    env: str = ""  # the variable that says the same
    is_deprecated: bool = False

    @property
    def name(self) -> str:
        return self.names[0]

    def to_json(self) -> dict[str, Any]:
        said = {
            "names": list(self.names),
            "off": list(self.off),
            "takes": self.takes,
            "type": self.type,
            "choices": list(self.choices),
            "known": list(self.known),
            "default": self.default,
            "help": self.help,
            "env": self.env,
            "deprecated": self.is_deprecated,
        }
        return {key: value for key, value in said.items() if value}

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Self:
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in said.items()
        }
        return cls(is_deprecated=values.pop("deprecated", False), **values)


@dataclass(frozen=True, kw_only=True)
class FlagList:
    """`env` is None when nobody has listed the variables of this version."""

    engine: str
    version: str
    flags: tuple[Flag, ...]
    env: frozenset[str] | None = None
    # Names of earlier versions, with what to write instead; None: there is nothing instead.
    removed: dict[str, str | None] = field(default_factory=dict)

    @cached_property
    def _by_name(self) -> dict[str, Flag]:
        return {name: flag for flag in self.flags for name in (*flag.names, *flag.off)}

    @cached_property
    def _in_order(self) -> list[str]:
        return sorted(self._by_name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def matches(self, typed: str) -> tuple[str, ...]:
        """The spelled-out names that a typed flag may mean: none, one, or several (refused).

        vLLM and SGLang read flags with argparse, which accepts the beginning of a long name
        while it fits one flag only. vLLM and llama.cpp take underscores for dashes, and vLLM
        also reads -O3 and parts of a JSON value (--compilation-config.mode).
        """
        name = self._resolve_spelling(typed)
        if name in self._by_name:
            return (name,)
        if self.engine == "llamacpp" or not name.startswith("--") or len(name) < 3:
            return ()
        first = bisect_left(self._in_order, name)
        found = list(takewhile(lambda each: each.startswith(name), self._in_order[first:]))
        meant = {self._by_name[each].names for each in found}
        is_one = len(meant) == 1 and len({self.is_off(each) for each in found}) == 1
        return tuple(found[:1] if is_one else found)

    def find(self, typed: str) -> Flag | None:
        """The flag that the engine will understand; None when it refuses the word."""
        found = self.matches(typed)
        return self._by_name[found[0]] if len(found) == 1 else None

    def is_spelled_out(self, typed: str) -> bool:
        """Whether a word is a flag's whole name, not the beginning of one."""
        return self._resolve_spelling(typed) in self._by_name

    def is_off(self, name: str) -> bool:
        """Whether a spelled-out name is the one that switches its flag off."""
        return name in self._by_name[name].off

    def nearest(self, typed: str) -> str | None:
        """The name that was probably meant by one that this version does not have."""
        name = self._resolve_spelling(typed)
        dashed = name.replace("_", "-")
        for each in (name, dashed):
            if each in self.removed:
                return self.removed[each]
        if dashed in self._by_name:
            return dashed
        if not dashed.startswith("--") and len(dashed) > 2:
            long = [each for each in self.names if each.startswith(f"-{dashed}")]
            if long:
                return long[0] if len({self._by_name[each].names for each in long}) == 1 else None
        close = difflib.get_close_matches(dashed, self.names, n=2, cutoff=LIKENESS)
        if len(close) == 2 and not dashed.startswith("--") and self._is_tie(dashed, *close):
            return None
        return close[0] if close else None

    def _is_tie(self, typed: str, first: str, second: str) -> bool:
        """Whether one letter of a short name could have been meant to be either of two flags'."""
        if self._by_name[first] is self._by_name[second]:
            return False
        one, other = (difflib.SequenceMatcher(a=each, b=typed).ratio() for each in (first, second))
        return one == other

    def _resolve_spelling(self, typed: str) -> str:
        if self.engine == "sglang":
            return typed
        if self.engine == "vllm":
            if re.match(r"-O(\d|\.|$)", typed):
                return "--optimization-level" if typed[2:3] != "." else "--compilation-config"
            typed = typed.split(".", 1)[0]
        return typed.replace("_", "-") if typed.startswith("--") else typed

    def to_json(self) -> dict[str, Any]:
        """What is kept of an image's list; `from_json` reads it again."""
        return {
            "engine": self.engine,
            "version": self.version,
            "env": None if self.env is None else sorted(self.env),
            "removed": dict(self.removed),
            "flags": [flag.to_json() for flag in self.flags],
        }

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Self:
        env = said["env"]
        return cls(
            engine=said["engine"],
            version=said["version"],
            env=None if env is None else frozenset(env),
            removed=said["removed"],
            flags=tuple(Flag.from_json(each) for each in said["flags"]),
        )


def nearest_value(value: str, values: tuple[str, ...], *, likeness: float = 0.6) -> str | None:
    """The value that was probably meant, of those that exist."""
    folded = {each.casefold().replace("-", "_"): each for each in values}
    wanted = value.casefold().replace("-", "_")
    close = difflib.get_close_matches(wanted, list(folded), n=1, cutoff=likeness)
    return folded[close[0]] if close else None


def load_shipped(engine: str, version: str) -> FlagList | None:
    """The list that comes with inferdash for exactly this release, else None.

    A neighbour's list is none: SGLang dropped flags from one patch release to the next, and
    a flag must not be called unknown because another version does not have it. A version
    that only differs behind the release (0.20.2rc1, 0.5.12.post1) has the release's list.
    """
    wanted = read_release(version)
    for each in _all(engine):
        is_commit = engine == "llamacpp" and bool(version) and version.endswith(each.version)
        if is_commit or (wanted is not None and wanted == read_release(each.version)):
            return each
    return None


def all_shipped(engine: str) -> tuple[FlagList, ...]:
    """Every list of this engine that comes with inferdash, newest first."""
    return _all(engine)


def newest(engine: str) -> FlagList:
    """For help and completion while nobody has asked the image. Every engine has one."""
    return _all(engine)[0]


@cache
def _all(engine: str) -> tuple[FlagList, ...]:
    found = list(_read(engine))
    return tuple(sorted(found, key=lambda each: read_release(each.version) or (0,), reverse=True))


def _read(engine: str) -> Iterator[FlagList]:
    for path in sorted(SHIPPED.glob(f"{engine}-*.json")):
        yield FlagList.from_json(json.loads(path.read_text()))

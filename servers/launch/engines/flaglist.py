"""Flags and variables of one version of an engine, and the successors of those that it has dropped.

A list of flags says which names are gone since the one before it. What took their place is said in
flaglist.yaml, for every version that has the new name and no longer the old one, however it was
listed.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, Self

from servers.launch.engines import spelling
from servers.launch.tables import freeze, read_table


@dataclass(frozen=True, kw_only=True)
class Successor:
    """`write` are the names of today, "--new" or "--new=value"; of several any one may be meant.

    `says` is a sentence on what became of it where no name alone says so.
    """

    write: tuple[str, ...] = ()
    says: str = ""

    @property
    def only(self) -> str | None:
        """The one thing to write instead; None where that is for a person to decide."""
        return self.write[0] if len(self.write) == 1 else None


_TABLE = freeze(read_table(__file__))
SUCCESSORS: Mapping[str, Mapping[str, Successor]] = {
    engine: {name: Successor(**said) for name, said in dropped.items()}
    for engine, dropped in _TABLE["dropped"].items()
}
# What two dropped flags of llama.cpp say together.
_PAIRS: Mapping[frozenset[str], Successor] = {
    frozenset(said["flags"]): Successor(write=said["write"]) for said in _TABLE["together"]
}


def find_successor(
    engine: str, name: str, *, release: tuple[int, ...] | None, beside: Collection[str] = ()
) -> Successor | None:
    """What became of a flag of an older version; None: nothing is known of such a name.

    `release` is that of the engine, None where it is not known; `beside` are the other flags.
    """
    since = _TABLE["since"].get(engine)
    if release is not None and since is not None and release < since:
        return None
    for names, together in _PAIRS.items() if engine == "llamacpp" else ():
        if name in names and names <= {name, *beside}:
            return together
    return SUCCESSORS.get(engine, {}).get(name)


def find_partners(name: str, beside: Collection[str]) -> tuple[str, ...]:
    """The flags beside a dropped one that its successor says, too."""
    pairs = (names for names in _PAIRS if name in names and names <= {name, *beside})
    return tuple(sorted(each for names in pairs for each in names if each != name))


def find_synonym(engine: str, name: str) -> str | None:
    """This engine's name for what another engine, or a habit, calls otherwise; None: no such."""
    for own, others in _TABLE["synonyms"].get(engine, {}).items():
        if name in others and name != own:
            return str(own)
    return None


type Release = tuple[int, ...]

# Repositories whose tags are the engine's versions; a mirror keeps the last part of the name.
_REPOSITORIES = {
    "vllm": (
        *("vllm-openai", "vllm-openai-cpu", "vllm-openai-rocm", "vllm-cpu"),
        *("vllm-cpu-release-repo", "vllm-tpu", "vllm"),
    ),
    "sglang": ("sglang", "sgl-dev"),
}
# Their tags count releases of their own: 26.05-py3.
_OTHER_NUMBERS = ("nvcr.io/", "lmcache/")
_NUMBER = r"[0-9]+\.[0-9]+(?:\.[0-9]+)?(?:\.?(?:post|rc)[0-9]+)?"
_TAG = re.compile(rf"v?({_NUMBER})(?:[-_].*)?")
# A tag that names the engine before its version: rocm7.0.0_vllm_0.11.2_20251210.
_NAMED = re.compile(rf"(?:^|[-_.])(vllm|sglang)[-_]?v?({_NUMBER})(?=$|[-_])")
# A build of one's own says so behind the release; the projects' own add the platform alone.
_OWN_BUILD = re.compile(r"[^+]*\+(?!(?:cu|rocm|cpu|xpu|tpu)[0-9.]*(?:$|[.-]))")
_RELEASE = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})+)(?![0-9])")


def of_image(engine: str, image: str) -> str:
    """The version that the tag names: "0.5.12" for lmsysorg/sglang:v0.5.12-cu130, "0.11.2" for
    rocm/vllm:rocm7.0.0_vllm_0.11.2_20251210.

    "" when it names none: latest, nightly, a digest, a fork's own image.
    """
    reference = image.partition("@")[0]
    path, _, tag = reference.rpartition(":")
    if not path or "/" in tag or reference.startswith(_OTHER_NUMBERS):
        return ""
    named = _NAMED.search(tag)
    if named is not None and named[1] == engine:
        return named[2]
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
_WHOLE = re.compile(r"[+-]?[0-9]+")
_ANY_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?", re.IGNORECASE)


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
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
        }
        said["deprecated"] = said.pop("is_deprecated")
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

    def successor(self, typed: str, beside: Collection[str] = ()) -> Successor | None:
        """What became of a name that this version has no more; None where it never had it, as far
        as is known. `beside` are the other flags of the launch, spelled out.
        """
        name = self._resolve_spelling(typed)
        for each in dict.fromkeys((name, name.replace("_", "-"))):
            if each in self._by_name:
                return None
            release = read_release(self.version)
            told = find_successor(self.engine, each, release=release, beside=beside)
            if told is not None and all(self._has(new) for new in told.write):
                return told
            if each in self.removed:
                instead = self.removed[each]
                return Successor(write=(instead,) if instead else ())
        return None

    def _has(self, new: str) -> bool:
        return self.find(new.partition("=")[0].partition(".")[0]) is not None

    def nearest(self, typed: str, values: Sequence[str] | None = None) -> str | None:
        """The name that was probably meant by one that this version does not have.

        `values` are those behind it, None where they are not known: a flag that could not take
        them was not meant.
        """
        if (told := self.successor(typed)) is not None:
            return told.only
        name = self._resolve_spelling(typed)
        dashed = name.replace("_", "-")
        if dashed in self._by_name:
            return dashed
        if not dashed.startswith("--"):
            return self._find_short(dashed, values) if len(dashed) > 2 else None
        synonym = find_synonym(self.engine, dashed)
        if synonym is not None and synonym in self._by_name:
            return synonym
        alike = spelling.find_meant(dashed, self._long_names, vocabulary=self._vocabulary)
        close = [each for each in alike if self._could_take(each, values)]
        meant = {self._by_name[each].names for each in close}
        return close[0] if len(meant) == 1 else None

    def _find_short(self, typed: str, values: Sequence[str] | None) -> str | None:
        """The long flag that was typed, or begun, with one dash; else the short one with a slip."""
        if f"-{typed}" in self._by_name:
            return f"-{typed}"
        found = [each for each in self.names if each.startswith(f"-{typed}")]
        if not found:
            short = [each for each in self.names if not each.startswith("--")]
            found = [each for each in short if spelling.count_changes(typed, each) == 1]
            found = [each for each in found if self._could_take(each, values)]
            begun = [each for each in found if typed.startswith(each) or each.startswith(typed)]
            found = begun or found
        return found[0] if len({self._by_name[each].names for each in found}) == 1 else None

    @cached_property
    def _long_names(self) -> tuple[str, ...]:
        return tuple(each for each in self.names if each.startswith("--"))

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return spelling.list_vocabulary(self.names)

    def _could_take(self, name: str, values: Sequence[str] | None) -> bool:
        """Whether these could be the values of a flag, by its type, choices and default."""
        flag = self._by_name[name]
        if values is None or flag.takes == "unknown":
            return True
        if self.is_off(name) or flag.takes == "none":
            return not values
        if not values:
            return flag.takes in ("optional", "many")
        if flag.takes != "many" and len(values) > 1:
            return False
        return all(_fits(flag, value) for value in values)

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
        flags = tuple(Flag.from_json(each) for each in said["flags"])
        env = None if said["env"] is None else frozenset(said["env"])
        return cls(**said | {"flags": flags, "env": env})


def _fits(flag: Flag, value: str) -> bool:
    """Whether a flag could mean a value: a list of choices may be misspelt, a type is kept."""
    if "$" in value or value.startswith("<"):
        return True  # to be filled in
    allowed = flag.choices or flag.known
    if allowed:
        return value in allowed or nearest_value(value, allowed) is not None
    kind = flag.type.rstrip("?")
    if kind == "int":
        return bool(_WHOLE.fullmatch(value))
    if kind == "float":
        return bool(_ANY_NUMBER.fullmatch(value))
    if kind == "json":
        return value.startswith(("{", "["))
    if kind == "size":
        return value[:1].isdigit()
    return _is_like(value, flag.default)


def _is_like(value: str, default: str) -> bool:
    """Whether a value is a number where the default is one; only what is certain is told apart."""
    usual = default.partition(",")[0]
    if _WHOLE.fullmatch(usual):
        return bool(_WHOLE.fullmatch(value))
    return not _ANY_NUMBER.fullmatch(usual) or bool(_ANY_NUMBER.fullmatch(value))


def nearest_value(
    value: str, values: tuple[str, ...], *, vocabulary: Collection[str] | None = None
) -> str | None:
    """The value that was probably meant, of those that exist; None: none is alike, or several are.

    `vocabulary` are the words that the values are made of, where they are many.
    """
    if vocabulary is None:
        vocabulary = spelling.list_vocabulary(values)
    found = spelling.find_meant(value, values, vocabulary=vocabulary)
    return found[0] if len(found) == 1 else None


def load_shipped(engine: str, version: str) -> FlagList | None:
    """The list that comes with inferdash for exactly this release, else None.

    A neighbour's list is none: SGLang dropped flags from one patch release to the next, and
    a flag must not be called unknown because another version does not have it. A version
    that only differs behind the release (0.20.2rc1, 0.5.12.post1, 0.20.2+cu129) has the
    release's list; a build of one's own (0.20.2+mine) may have more.
    """
    wanted = None if _OWN_BUILD.match(version) else read_release(version)
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

"""A set of changes to a launch, and the difference between two launches."""

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from servers.launch import numbers
from servers.launch.engines.launch import FIELDS, SPANS, Launch
from servers.launch.numbers import format_size

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


def is_list_flag(name: str) -> bool:
    """Whether the flag keeps what it holds when it is given once more, or could."""
    return _add_dashes(name) in (*_BEHIND_ONE, *_ONE_EACH)


def is_repeated(name: str) -> bool:
    """Whether each entry stands behind a flag of its own."""
    return _add_dashes(name) in _ONE_EACH


def split_list_flag(
    name: str, held: Iterable[tuple[str, ...]], values: Iterable[str]
) -> tuple[str, ...]:
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


# None: the flag alone. Several: all values of a flag that takes more than one.
type FlagValue = str | tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class LaunchChange:
    """Flags by their name as typed ("--tp").

    Flags of entries beside each other, such as adapters, keep the entries that the change does
    not name; to be rid of them, drop the flag.
    """

    set_flags: Mapping[str, FlagValue] = field(default_factory=dict)
    drop_flags: tuple[str, ...] = ()
    set_env: Mapping[str, str] = field(default_factory=dict)
    set_secret_env: Mapping[str, int] = field(default_factory=dict)  # variable -> Secret.pk
    drop_env: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)  # other fields of Launch
    reasons: Mapping[str, str] = field(default_factory=dict)  # flag or variable -> why

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Raises ValueError for a key, or a field of Launch, that does not exist."""
        known = {each.name for each in fields(cls)}
        if unknown := set(said) - known:
            raise ValueError(f"A change has no {', '.join(sorted(unknown))}.")
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in said.items()
        }
        values["set_flags"] = {
            name: tuple(map(str, value)) if isinstance(value, list) else value
            for name, value in said.get("set_flags", {}).items()
        }
        change = cls(**values)
        of_launch = {each.name for each in fields(Launch)} - {"flags", "env", "reasons"}
        if unknown := set(change.fields) - of_launch:
            raise ValueError(f"A launch has no field {', '.join(sorted(unknown))} to change.")
        return change

    def apply(self, launch: Launch) -> Launch:
        """The launch with these changes; a flag that is set already keeps its place."""
        flags = without_flags(launch.flags, self.drop_flags)
        for name, value in self.set_flags.items():
            flags = with_flag(flags, name, value)
        reasons = {
            key: value
            for key, value in launch.reasons.items()
            if key not in self.drop_env and key not in self.drop_flags
        }
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in self.fields.items()
        }
        secrets = values.pop("secret_env", launch.secret_env)
        # What was a secret and is said plainly is no secret any more, and the reverse.
        gone = {*self.drop_env, *self.set_env, *self.set_secret_env}
        return replace(
            launch,
            **values,
            flags=flags,
            env=_drop_variables(launch.env, gone, but=self.set_env) | dict(self.set_env),
            secret_env=_drop_variables(secrets, gone, but=self.set_secret_env)
            | dict(self.set_secret_env),
            reasons=reasons | dict(self.reasons),
        )


def _drop_variables[Value](
    held: Mapping[str, Value], gone: set[str], *, but: Mapping[str, Value]
) -> dict[str, Value]:
    """Without these variables, but those that are set anew keep their place."""
    return {name: value for name, value in held.items() if name not in gone or name in but}


def value_words(value: Any) -> tuple[str, ...]:
    """The values as words, also as YAML says them: a list, a number, nothing."""
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)


def same_flag(one: str, other: str) -> bool:
    """Engines read "--max_model_len" as "--max-model-len"."""
    return one.replace("_", "-") == other.replace("_", "-")


def split_flags(flags: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Each flag with its values; words before the first flag stand under "".

    "--flag=value" is one flag with one value. A word is a flag when it begins with "-" and is
    not a number: rule of argparse.
    """
    found: list[tuple[str, tuple[str, ...]]] = []
    for word in flags:
        if is_flag(word):
            name, equals, value = word.partition("=")
            found.append((name, (value,) if equals else ()))
        elif found:
            name, values = found[-1]
            found[-1] = (name, (*values, word))
        else:
            found.append(("", (word,)))
    return found


def is_flag(word: str) -> bool:
    if not word.startswith("-") or word == "-":
        return False
    try:
        float(word)
    except ValueError:
        return True
    return False


def without_flags(flags: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """The words without these flags and their values."""
    kept: list[str] = []
    dropping = False
    for word in flags:
        if is_flag(word):
            dropping = any(same_flag(word.partition("=")[0], name) for name in names)
        if not dropping:
            kept.append(word)
    return tuple(kept)


def with_flag(flags: tuple[str, ...], name: str, value: FlagValue) -> tuple[str, ...]:
    """The words with this flag set: in its old place, else at the end.

    It is set once, with these values and no others, unless it holds entries beside each other.
    """
    values = value_words(value)
    new = (name, *values)
    if values and is_list_flag(name):
        held = [each for typed, each in split_flags(flags) if same_flag(typed, name)]
        new = split_list_flag(name, held, values)
    made: list[str] = []
    dropping = is_placed = False
    for word in flags:
        if is_flag(word):
            dropping = same_flag(word.partition("=")[0], name)
            if dropping and not is_placed:
                made += new
                is_placed = True
        if not dropping:
            made.append(word)
    return tuple(made) if is_placed else (*flags, *new)


# Shown flag by flag, variable by variable.
_ITEMISED = ("flags", "env", "secret_env", "reasons")


@dataclass(frozen=True, kw_only=True)
class Difference:
    """None: not there on that side. An empty text: there, without a value."""

    part: str  # "flags", "env", or another field of Launch
    name: str  # the flag or variable; for another field the same as `part`
    before: str | None
    after: str | None
    why: str = ""  # the reason given for it, the newer one where both sides have one


def compare_launches(before: Launch, after: Launch) -> list[Difference]:
    """Every difference once: engine and image first, then flags, variables, the rest."""
    found = [
        Difference(part=name, name=name, before=field_text(name, old), after=field_text(name, new))
        for name in (each.name for each in fields(Launch))
        if name not in _ITEMISED and (old := getattr(before, name)) != (new := getattr(after, name))
    ]
    reasons = {**before.reasons, **after.reasons}
    flags = _flags(before), _flags(after)
    for part, (old, new) in (("flags", flags), ("env", _variables(before, after))):
        found += [
            Difference(
                part=part,
                name=name,
                before=old.get(name),
                after=new.get(name),
                why=reasons.get(name, ""),
            )
            for name in {**old, **new}
            if old.get(name) != new.get(name) or before.reasons.get(name) != after.reasons.get(name)
        ]
    if before.flags != after.flags and flags[0] == flags[1]:
        order = Difference(
            part="flags",
            name="order",
            before=shlex.join(before.flags),
            after=shlex.join(after.flags),
        )
        found.append(order)
    return found


def _flags(launch: Launch) -> dict[str, str]:
    """Each flag, as engines compare its name, with all its values."""
    found: dict[str, str] = {}
    for name, values in split_flags(launch.flags):
        name = name.replace("_", "-")
        said = shlex.join(values)
        found[name] = f"{found[name]} · {said}" if name in found else said
    return found


def _variables(before: Launch, after: Launch) -> tuple[dict[str, str], dict[str, str]]:
    """Variables of both sides; of secrets only whether they are the same."""
    old = dict(before.env) | dict.fromkeys(before.secret_env, "a secret")
    new = dict(after.env) | {
        name: "a secret"
        if name not in before.secret_env or before.secret_env[name] == secret
        else "another secret"
        for name, secret in after.secret_env.items()
    }
    return old, new


def field_text(name: str, value: object) -> str | None:
    """The value of a field of Launch as people write it; None where it says nothing."""
    kind = FIELDS[name].kind if name in FIELDS else ""
    if kind == "size" and isinstance(value, int):
        return format_size(value) if value else None
    if kind in SPANS and isinstance(value, int):
        return numbers.format_duration(value) if value else None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "\n".join(map(str, value)) or None
    if isinstance(value, Mapping):
        return "\n".join(f"{key}={each}" for key, each in value.items()) or None
    return str(value) if value not in ("", 0) else None

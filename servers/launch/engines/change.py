"""A set of changes to a launch: what a lint fix, an overlay or a recipe's migration says."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from servers.launch.engines import list_flags
from servers.launch.engines.launch import Launch

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
    if values and list_flags.holds(name):
        held = [each for typed, each in split_flags(flags) if same_flag(typed, name)]
        new = list_flags.words(name, held, values)
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

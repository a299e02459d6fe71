"""A rule's fix, said in the words of the launch that it is for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from servers.judge.profiles.facts import LaunchFacts, TypedFlags, is_json_object
from servers.launch.engines import change
from servers.launch.engines.change import FlagValue, LaunchChange


@dataclass(frozen=True, kw_only=True)
class Fix:
    """A Change, and names whose values are only known from the launch."""

    change: LaunchChange = field(default_factory=LaunchChange)
    rename_flags: Mapping[str, str] = field(default_factory=dict)  # "--new", "--new=value"
    rename_env: Mapping[str, str] = field(default_factory=dict)
    # Fields of Launch that keep what they hold: {"cap_add": ["SYS_NICE"]}.
    add: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Raises ValueError for a key that neither this nor Change has."""
        rest = dict(said)
        own = {key: rest.pop(key, {}) for key in ("rename_flags", "rename_env", "add")}
        LaunchChange.from_json({"fields": own["add"]})  # refuses what is no field
        return cls(change=LaunchChange.from_json(rest), **own)


def adapt_fix(fix: Fix, facts: LaunchFacts, *, reason: str) -> LaunchChange | None:
    """The change for this launch, flags in the spelling that stands there; None: it changes nothing.

    Flags that this version of the engine does not have are not set.
    """
    set_flags: dict[str, FlagValue] = {}
    drop_flags: list[str] = []
    for name, value in fix.change.set_flags.items():
        if facts.flaglist is not None and facts.flaglist.find(name) is None:
            continue
        typed = facts.all_typed(name)
        if any(each.is_part for each in typed):
            continue  # would lose the other keys
        words = list(dict.fromkeys(each.word for each in typed))
        held = typed[-1].value if typed else ""
        set_flags[words[0] if words else name] = _merge(value, held)
        # What stands behind another spelling of it is as good as what stands behind this one.
        drop_flags += [] if change.is_list_flag(name) else words[1:]
    for name in fix.change.drop_flags:
        drop_flags += [each.word for each in facts.all_typed(name)]
    for old, new in fix.rename_flags.items():
        if typed := facts.all_typed(old):
            set_flags |= _rename(typed, new)
            drop_flags += [each.word for each in typed]
    made = replace(
        fix.change,
        set_flags=set_flags,
        drop_flags=tuple(dict.fromkeys(drop_flags)),
        **_rest(fix, facts),
    )
    if made.apply(facts.launch) == facts.launch:
        return None
    why = dict.fromkeys((*made.set_flags, *made.set_env), reason) if reason else {}
    return replace(made, reasons={**why, **made.reasons})


def _merge(value: Any, held: str) -> FlagValue:
    """A JSON object keeps the keys that the launch says and the fix does not."""
    if value is None or isinstance(value, tuple):
        return value
    if is_json_object(str(value)) and is_json_object(held):
        return json.dumps(json.loads(held) | json.loads(str(value)))
    return str(value)


def _rename(typed: Sequence[TypedFlags], new: str) -> dict[str, FlagValue]:
    """The flag under its new name, with all of its values; of several flags the last counts."""
    name, equals, value = new.partition("=")
    if equals:
        return {name: value}
    counted = typed if change.is_list_flag(name) else typed[-1:]
    values = tuple(value for each in counted for value in each.values)
    return {name: values if len(values) > 1 else values[0] if values else None}


def _rest(fix: Fix, facts: LaunchFacts) -> dict[str, Any]:
    env, secret = facts.launch.env, facts.launch.secret_env
    set_env = {name: str(value) for name, value in fix.change.set_env.items()}
    dropped = [*fix.change.drop_env, *(old for old in fix.rename_env if old in env)]
    for old, new in fix.rename_env.items():
        if old in env and new not in env:
            set_env[new] = env[old]
    changed = dict(fix.change.fields) | _add_variables(fix, facts)
    if any(name in secret for name in dropped):
        changed["secret_env"] = {name: pk for name, pk in secret.items() if name not in dropped}
    return {
        "set_env": set_env,
        "drop_env": tuple(name for name in dropped if name in env),
        "fields": changed,
    }


def _add_variables(fix: Fix, facts: LaunchFacts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, more in fix.add.items():
        held = getattr(facts.launch, name)
        if isinstance(held, dict):
            found[name] = {**more, **held}
        else:
            found[name] = (*held, *(each for each in more if each not in held))
    return found

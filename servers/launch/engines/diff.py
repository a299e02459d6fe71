"""The difference between two launches, field by field and flag by flag."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields

from servers.launch import durations, sizes
from servers.launch.engines.change import split_flags
from servers.launch.engines.launch import Launch

# Shown flag by flag, variable by variable.
_ITEMISED = ("flags", "env", "secret_env", "reasons")
# Lengths of time.
_SPANS = ("ready_limit", "restart_unhealthy", "ask_every", "hold_requests", "stop_idle")


@dataclass(frozen=True, kw_only=True)
class Difference:
    """None: not there on that side. An empty text: there, without a value."""

    part: str  # "flags", "env", or another field of Launch
    name: str  # the flag or variable; for another field the same as `part`
    before: str | None
    after: str | None
    why: str = ""  # the reason given for it, the newer one where both sides have one


def compare(before: Launch, after: Launch) -> list[Difference]:
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
    if name in ("shm_size", "free_memory") and isinstance(value, int):
        return sizes.format_size(value) if value else None
    if name in _SPANS and isinstance(value, int):
        return durations.format_duration(value) if value else None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "\n".join(map(str, value)) or None
    if isinstance(value, Mapping):
        return "\n".join(f"{key}={each}" for key, each in value.items()) or None
    return str(value) if value not in ("", 0) else None

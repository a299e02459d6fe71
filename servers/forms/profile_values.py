"""A launch as the values of the profile form, and back."""

from collections.abc import Callable, Mapping
from typing import Any

from servers.forms.environment import split_secrets
from servers.forms.profile_fields import show
from servers.judge.profiles.lint_rules import opens_the_box as opens_the_box
from servers.launch.commandline import lines
from servers.launch.engines import flagtext
from servers.launch.engines.launch import FIELDS, SAYS_ONLY, Launch
from servers.models.people.key import MASK

# Not as they stand in the form: secrets are sealed, and reasons are typed beside what they are for.
_APART = ("env", "secret_env", "reasons", "ipc")
_SAME = tuple(name for name in FIELDS if name not in _APART)


def starts_the_same(cleaned: Mapping[str, Any], old: Launch) -> bool:
    """Whether the same would be started: name and notes alone are new."""
    same = {name: getattr(old, name) for name in _SAME if name not in SAYS_ONLY} | {
        "env": old.env | dict.fromkeys(old.secret_env, MASK),
        "ipc_host": old.ipc == "host",
    }
    return all(name in cleaned and cleaned[name] == value for name, value in same.items())


def to_launch(
    cleaned: Mapping[str, Any],
    reasons: dict[str, str],
    *,
    kept: Mapping[str, int],
    seal: Callable[[str, str], int],
) -> Launch:
    """Values of secret variables are sealed; `kept` are those sealed before."""
    env, secret_env = split_secrets(cleaned["env"], kept=kept, seal=seal)
    return Launch(
        env=env,
        secret_env=secret_env,
        reasons=reasons,
        ipc="host" if cleaned["ipc_host"] else "",
        **{name: cleaned[name] for name in _SAME},
    )


def initial(launch: Launch, *, secrets: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What the form shows of a launch: sealed secrets as a mask, pasted ones as they are."""
    env = launch.env | dict.fromkeys(launch.secret_env, MASK) | dict(secrets or {})
    shown = {
        each.box or name: show(name, getattr(launch, name))
        for name, each in FIELDS.items()
        if each.kind != "hidden"
    }
    return shown | {
        "flags": flagtext.flags_text(launch.flags, launch.reasons),
        "env": lines.environment_text(env, launch.reasons),
    }

"""Named parameters: {{model}} in a launch, with a value of its own for each server."""

import re
from collections.abc import Mapping
from dataclasses import replace

from servers.launch.engines.launch import Launch

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,29}")
MOST, LONGEST = 20, 300  # parameters, and characters of a value
_PLACE = re.compile(r"\{\{ ?([A-Za-z][A-Za-z0-9_]{0,29}) ?\}\}")


def fill(launch: Launch, values: Mapping[str, str] | None = None) -> Launch:
    """The launch with every parameter replaced by its value, or else by what the profile says.

    Model, revision, served name, flags and variables may hold them; the image and what the
    container gets of its box may not. A value stays within its word. What only looks like a
    parameter, such as a chat template's {{ messages }}, is left as it is.
    """
    if not launch.parameters:
        return launch
    known = launch.parameters | {k: v for k, v in (values or {}).items() if k in launch.parameters}

    def fill_in(text: str) -> str:
        return _PLACE.sub(lambda found: known.get(found[1], found[0]), text)

    return replace(
        launch,
        checkpoint=fill_in(launch.checkpoint),
        revision=fill_in(launch.revision),
        served_name=fill_in(launch.served_name),
        flags=tuple(map(fill_in, launch.flags)),
        env={name: fill_in(value) for name, value in launch.env.items()},
        parameters={},
    )


def check(name: str, value: str) -> None:
    """Raises ValueError for a name or a value that cannot be one."""
    if not NAME.fullmatch(name):
        raise ValueError(f"“{name[:40]}” is not a parameter’s name: letters, digits and _.")
    if len(value) > LONGEST or not value.isprintable():
        raise ValueError(f"The value of {name} is not one line of at most {LONGEST} characters.")

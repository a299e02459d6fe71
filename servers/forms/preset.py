"""A set of parameters that somebody wants to keep under a name."""

import json
from dataclasses import dataclass
from typing import Any

from servers.models.profiles.preset import MOST, Preset

LIMIT = 256 * 2**10  # bytes
PARTS = ("params", "tools", "schema")


class PresetError(Exception):
    """It cannot be kept so; the text says why and what to change."""


@dataclass(frozen=True, kw_only=True)
class NamedPreset:
    name: str
    values: dict[str, Any]


def read(text: bytes) -> NamedPreset:
    """Raises PresetError."""
    if len(text) > LIMIT:
        raise PresetError(f"The parameters are larger than {LIMIT >> 10} KiB. Shorten them.")
    try:
        said = json.loads(text.replace(b"\\u0000", b""))
    except (ValueError, RecursionError) as error:
        raise PresetError("The parameters are not JSON. Reload the page.") from error
    values = said.get("values") if isinstance(said, dict) else None
    if not isinstance(values, dict):
        raise PresetError("These are no parameters. Reload the page.")
    name = said.get("name")
    if not isinstance(name, str) or not name.strip() or len(name.strip()) > 60:
        raise PresetError("Give it a name of 1 to 60 characters.")
    return NamedPreset(name=name.strip(), values={part: values.get(part) for part in PARTS})


def check_room(profile: int, name: str) -> None:
    """Raises PresetError."""
    others = Preset.objects.filter(profile=profile).exclude(name=name)
    if others.count() >= MOST:
        raise PresetError(f"This profile has {MOST} presets. Delete one first.")

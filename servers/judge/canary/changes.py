"""Changes between what two canaries were asked of: image, engine, profile, driver."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Those that may change answers, in the order in which they are told.
_NAMES = {
    "image": "image",
    "image_digest": "image digest",
    "engine_version": "engine",
    "profile": "profile",
    "version": "profile version",
    "commit": "model’s commit",
    "driver": "driver",
    "cards": "GPUs",
}


@dataclass(frozen=True, kw_only=True)
class MeasuredChange:
    key: str
    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name} {self.before} → {self.after}"


def list_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[MeasuredChange]:
    """What is known of both, and another."""
    found = []
    for key, name in _NAMES.items():
        was, now = _format(before.get(key)), _format(after.get(key))
        if was and now and was != now:
            found.append(MeasuredChange(key=key, name=name, before=was, after=now))
    # A digest stands for itself only where the tag is the same.
    has_tag = any(each.key == "image" for each in found)
    return [each for each in found if each.key != "image_digest" or not has_tag]


def _format(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(each.get("name") or "") for each in value)
    text = "" if value is None else str(value)
    name, at, digest = text.partition("@sha256:")
    return f"{digest[:12]}" if at and name else text

"""Facts that a result was measured on, by the names people know, and what differs between two results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAMES: Mapping[str, str] = {
    "profile": "Profile",
    "version": "Version",
    "model": "Model",
    "commit": "Model’s commit",
    "image": "Image",
    "image_digest": "Image digest",
    "engine": "Engine",
    "engine_version": "Engine version",
    "driver": "Driver",
    "cards": "GPUs",
}
# What stands beside a mark in a plot, for those whose value is too long.
_IN_A_WORD = {
    "commit": "model",
    "image": "image",
    "image_digest": "image",
    "engine": "engine",
    "engine_version": "engine",
    "driver": "driver",
    "cards": "GPUs",
    "model": "model",
    "profile": "profile",
}
_DIGITS = 12  # of a digest that is told apart from another


@dataclass(frozen=True, kw_only=True)
class MeasuredFact:
    key: str
    name: str
    values: tuple[str, ...]  # one a result; "–": not known

    @property
    def short_values(self) -> tuple[str, ...]:
        """Digests by their first digits."""
        return tuple(_shorten(each) for each in self.values)

    @property
    def mark(self) -> str:
        """ "v4", "image": the later value, for a place with little room."""
        return f"v{self.values[-1]}" if self.key == "version" else _IN_A_WORD[self.key]


def _shorten(value: str) -> str:
    _image, at, digest = value.partition("@sha256:")
    return digest[:_DIGITS] if at else value


def list_facts(subjects: Sequence[Mapping[str, Any]]) -> list[MeasuredFact]:
    """What results were measured on, as far as it is known of any."""
    found = []
    for key, name in NAMES.items():
        values = tuple(_format(each.get(key)) for each in subjects)
        if any(values):
            known = tuple(each or "–" for each in values)
            found.append(MeasuredFact(key=key, name=name, values=known))
    return found


def list_differing(subjects: Sequence[Mapping[str, Any]]) -> list[MeasuredFact]:
    return [each for each in list_facts(subjects) if len(set(each.values)) > 1]


def list_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[MeasuredFact]:
    """What is known of both and differs: what nobody has read has not changed."""
    return [each for each in list_differing([before, after]) if "–" not in each.values]


def _format(value: Any) -> str:
    if isinstance(value, list):  # cards
        kinds = Counter(_format_card(each) for each in value)
        return "; ".join(f"{count} × {name}" for name, count in kinds.items())
    return "" if value is None else str(value)


def _format_card(card: Mapping[str, Any]) -> str:
    name = str(card.get("name") or "GPU").removeprefix("NVIDIA ")
    limit = card.get("power_limit_w")
    return name if limit is None else f"{name}, {limit:.0f} W"

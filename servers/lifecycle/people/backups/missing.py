"""Images and models that a restored backup names and the box lacks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from servers.host.docker.containers import ContainerError
from servers.judge.runs.limits import LimitsError
from servers.launch.engines import parameters
from servers.launch.engines.launch import Launch
from servers.launch.engines.volumes import VolumeError
from servers.lifecycle.runs import creation
from servers.lifecycle.weights import checkpoints
from servers.models import Box, Profile


@dataclass(frozen=True, kw_only=True)
class MissingItem:
    kind: str  # "image" or "model"
    name: str
    size: int | None  # bytes that are missing; None: not known
    why: str = ""  # it could not be looked for


def list_missing(box: Box, needs: dict[str, Any]) -> list[MissingItem]:
    """What this box lacks; also what nobody could look for, with the reason. `needs` knows sizes."""
    launches = [
        parameters.fill(profile.launch)
        for profile in Profile.objects.active().exclude(current=None).select_related("current")
    ]
    images = sorted({launch.image for launch in launches})
    return [
        *_images(images, needs.get("images", {})),
        *_models(launches, box, needs.get("models", {})),
    ]


def _images(references: list[str], sizes: dict[str, int | None]) -> Iterator[MissingItem]:
    why = ""
    for reference in references:
        is_there = False
        if not why:
            try:
                is_there = creation.docker().image(reference) is not None
            except ContainerError as error:
                why = str(error)
        if not is_there:
            yield MissingItem(kind="image", name=reference, size=sizes.get(reference), why=why)


def _models(
    launches: list[Launch], box: Box, sizes: dict[str, int | None]
) -> Iterator[MissingItem]:
    seen = set()
    for launch in launches:
        name = checkpoints.source(launch, box)
        if (name or launch.checkpoint) in seen:
            continue
        seen.add(name or launch.checkpoint)
        size = sizes.get(launch.checkpoint)
        if not name:
            why = "inferdash cannot tell where it would lie"
            yield MissingItem(kind="model", name=launch.checkpoint, size=size, why=why)
            continue
        try:
            found = checkpoints.look(name, box)
        except (OSError, LimitsError, VolumeError) as error:
            yield MissingItem(kind="model", name=launch.checkpoint, size=size, why=str(error))
            continue
        if found is None or found.weights is None:
            yield MissingItem(kind="model", name=launch.checkpoint, size=size)
        elif found.missing:
            yield MissingItem(kind="model", name=launch.checkpoint, size=found.missing)

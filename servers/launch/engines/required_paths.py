"""The paths of a box that a launch depends on, seen through its mounts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from servers.launch.engines.change import split_flags
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import Site, volumes
from servers.launch.engines.volumes import Volume


@dataclass(frozen=True, kw_only=True)
class Place:
    path: str  # on the box
    of: str  # what needs it: "volumes", "checkpoint" or a flag as typed


def places(launch: Launch, site: Site) -> tuple[Place, ...]:
    """Mounted folders first, then what the checkpoint and the flags name below them.

    A path of the container that no mount covers lies in the image, which is not asked.
    Raises VolumeError for a mount that cannot be resolved.
    """
    mounts = [volume for volume in volumes(launch, site) if volume.kind == "bind"]
    found = [Place(path=volume.source, of="volumes") for volume in mounts]
    for path, of in _iterate_paths(launch):
        on_box = _on_box(path, mounts)
        if on_box and all(each.path != on_box for each in found):
            found.append(Place(path=on_box, of=of))
    return tuple(found)


def checkpoint(launch: Launch, site: Site) -> str:
    """The box's path of a checkpoint that is named by a path; "" when no mount covers it.

    Raises VolumeError for a mount that cannot be resolved.
    """
    mounts = [volume for volume in volumes(launch, site) if volume.kind == "bind"]
    return _on_box(launch.checkpoint, mounts)


def _iterate_paths(launch: Launch) -> Iterator[tuple[str, str]]:
    if launch.checkpoint.startswith("/"):
        yield launch.checkpoint, "checkpoint"
    for name, values in split_flags(launch.flags):
        for value in values:
            if value.startswith("/"):
                yield value, name


def _on_box(path: str, mounts: list[Volume]) -> str:
    """The path that a container's path stands for; "" when no mount covers it."""
    inside = PurePosixPath(path)
    covering = [mount for mount in mounts if inside.is_relative_to(mount.target)]
    if ".." in inside.parts or not covering:
        return ""
    nearest = max(covering, key=lambda mount: len(mount.target))
    return str(PurePosixPath(nearest.source) / inside.relative_to(nearest.target))

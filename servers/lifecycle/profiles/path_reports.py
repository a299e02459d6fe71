"""Reports on the paths that a launch needs: asked by the web, answered by the worker."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from django.conf import settings

from servers.host.files import lookup
from servers.host.files.box_files import BoxFiles
from servers.host.files.paths import PathError
from servers.judge.runs import limits
from servers.launch.engines import placement
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import Place, Site, VolumeError, resolve
from servers.lifecycle.runs.creation import own_paths
from servers.models import Box, StoredCheckpoint
from servers.state import store

# A launch with more has been written by a program.
MOST = 30


@dataclass(frozen=True, kw_only=True)
class PathReport:
    path: str
    lies: lookup.Lies | Literal["refused"]
    of: str = ""
    elsewhere: tuple[str, ...] = ()
    is_made: bool = False  # it is not there yet, and a start makes it
    refusal: str = ""  # why the box would not mount it
    stored: StoredCheckpoint | None = None  # the model that lies there


def list_needed_paths(launch: Launch, box: Box) -> tuple[Place, ...]:
    """Nothing where a mount cannot be resolved: the preview says so."""
    try:
        found = placement.list_required_paths(launch, Site(home=box.home, hf_cache=box.hf_cache))
    except VolumeError:
        return ()
    return found[:MOST]


def question(box: Box, wanted: Sequence[Place]) -> str:
    paths = json.dumps([each.path for each in wanted])
    return f"paths:{box.slug}:{hashlib.sha256(paths.encode()).hexdigest()}"


def wait_for_reports(
    box: Box, wanted: Sequence[Place], *, seconds: float
) -> list[PathReport] | None:
    """What the box says of them, once it was asked; None when it does not answer in time."""
    said = store.wait_for_answer(question(box, wanted), seconds=seconds)
    return (
        None if said is None else merge(wanted, said, box, box.checkpoints.defer("texts", "config"))
    )


def refusals(told: Iterable[PathReport]) -> tuple[str, ...]:
    """Why the box does not mount such a folder, a sentence each."""
    return tuple(each.refusal for each in told if each.refusal and each.of == "volumes")


def are_unsure(wanted: Iterable[Place], box: Box) -> bool:
    """Whether only the box knows: a mount lies outside of the folders that it lets profiles mount,
    by its name, and may lie inside by links."""
    roots = box.facts.get("limits", {}).get("mount_roots")
    return roots is not None and not all(_is_inside(each, roots) for each in wanted)


def _is_inside(place: Place, roots: Iterable[str]) -> bool:
    return place.of != "volumes" or any(
        PurePosixPath(place.path).is_relative_to(root) for root in roots
    )


def answer(asked: str, paths: Iterable[str], *, home: str, hf_cache: str) -> None:
    """Look on this box and tell who asked. Only below the folders that profiles may mount.

    Raises redis.RedisError, and LimitsError or OSError when the limits cannot be read.
    """
    allowed = limits.read(settings.BOX_FILE)
    roots = list(allowed.mount_roots)
    if hf_cache:
        roots.append(resolve(hf_cache, home=home))
    try:
        files = BoxFiles.from_text(allowed.mount_roots, own_paths(), root=settings.HOST_ROOT)
    except PathError:
        files = BoxFiles(below=())  # the refusal of each path says why
    found = [asdict(_look(path, roots, allowed, files)) for path in list(paths)[:MOST]]
    store.give(asked, found)


def _look(path: str, roots: list[str], allowed: limits.Limits, files: BoxFiles) -> PathReport:
    own = own_paths()
    refusal = limits.mount_refusal(path, allowed, root=settings.HOST_ROOT, own=own)
    if refusal:
        return PathReport(path=path, lies="refused", refusal=refusal)
    found = lookup.look(path, roots, files)
    return PathReport(path=path, lies=found.lies, elsewhere=found.elsewhere)


def merge(
    wanted: Sequence[Place], answered: Any, box: Box, models: Iterable[StoredCheckpoint]
) -> list[PathReport]:
    """What a box has answered, with the models of it that lie there."""
    stored = {each.path: each for each in models}
    told: list[PathReport] = []
    for place, said in zip(wanted, answered, strict=True):
        # What lies in a missing folder is missing, too.
        above = [each for each in told if each.lies != "there"]
        if not any(PurePosixPath(place.path).is_relative_to(each.path) for each in above):
            # The watcher has looked deeper than a question may.
            known = _named_alike(place.path, stored) if said["lies"] == "missing" else ()
            elsewhere = tuple(dict.fromkeys([*said["elsewhere"], *known]))[: lookup.MOST_FOUND]
            added: dict[str, Any] = {
                "of": place.of,
                "elsewhere": elsewhere,
                "stored": stored.get(place.path),
            }
            added["is_made"] = said["lies"] == "missing" and place.path == box.cache_path
            told.append(PathReport(**said | added))
    return told


def _named_alike(path: str, stored: Iterable[str]) -> list[str]:
    name = PurePosixPath(path).name.casefold()
    return sorted(each for each in stored if PurePosixPath(each).name.casefold() == name)

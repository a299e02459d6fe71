"""External engines, in containers and as processes alike.

Everything that is known of a life is asked of a Stranger; which kind it is, is decided here.
"""

from collections.abc import Iterable

from django.db import transaction

from servers.host.kernel.processes import ProcessId
from servers.judge.external.engines import DiscoveredEngine
from servers.lifecycle.external import workloads
from servers.lifecycle.external.workloads import (
    ContainerWorkload,
    ExternalWorkload,
    ProcessWorkload,
    WatchError,
    WorkloadEnd,
    build_removed_end,
    own_log,
)
from servers.lifecycle.runs import creation
from servers.models import Box, ExternalEngine, Run

__all__ = [
    "WorkloadEnd",
    "ExternalWorkload",
    "ContainerWorkload",
    "ProcessWorkload",
    "WatchError",
    "find",
    "has_seen",
    "own_log",
    "renew_rows",
    "saw",
    "find_engine",
    "find_end",
]

# What this process itself has seen of them, by their keys: rows may say anything.
_seen: dict[str, DiscoveredEngine] = {}


def saw(found: Iterable[DiscoveredEngine]) -> None:
    """Tell what engines run now that others have started; nothing else is ever watched."""
    global _seen  # noqa: PLW0603 - replaced as a whole, for threads that read it
    _seen = {each.container: each for each in found}


def renew_rows(box: Box, found: Iterable[DiscoveredEngine]) -> bool:
    """Keep exactly these of the box; return whether anything is different now."""
    wanted = {each.container: each for each in found}
    new = {container: each.to_json() for container, each in wanted.items()}
    mine = ExternalEngine.objects.filter(box=box)
    old = dict(mine.values_list("container_id", "found"))
    if new == old:
        return False
    with transaction.atomic():
        mine.exclude(container_id__in=list(new)).delete()
        for container, said in new.items():
            if old.get(container) != said:
                ExternalEngine.objects.update_or_create(
                    box=box,
                    container_id=container,
                    defaults={"found": said, "has_ended": wanted[container].has_ended},
                )
    return True


def find_engine(key: str) -> DiscoveredEngine | None:
    """What was seen under this key, by its container or process."""
    return _seen.get(key)


def has_seen(stranger: ExternalWorkload) -> bool:
    """Whether an engine was seen in it."""
    return stranger.key in _seen


def find(key: str) -> ExternalWorkload | None:
    """The container, running or not, or the process; None where there is none of this key.

    Of processes only those that were seen. Raises ContainerError.
    """
    if ProcessId.parse(key) is not None:
        found = _seen.get(key)
        return ProcessWorkload(found) if found is not None and found.is_process else None
    other = creation.docker().other(key)
    return ContainerWorkload(other) if other is not None else None


def find_end(run: Run, *, exit_code: int | None = None) -> tuple[WorkloadEnd | None, bool]:
    """How the life of a watched run has ended, None while it lasts; and whether it is paused.

    `exit_code` is what somebody has heard of its end. Raises ContainerError.
    """
    life = ProcessId.parse(run.container_id)
    if life is not None:
        return (None if life.is_running() else workloads.end_process_run(run, life)), False
    other = creation.docker().other(run.container_id)
    if other is None:
        return build_removed_end(), False
    container = ContainerWorkload(other)
    return container.end(run, exit_code), container.is_paused

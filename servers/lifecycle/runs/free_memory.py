"""Free memory that a profile requires before a start."""

import logging
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from servers.host.kernel import page_cache
from servers.judge.memory import available, holders
from servers.judge.runs import limits
from servers.lifecycle.runs import creation, gpu_assignment
from servers.lifecycle.runs.secret_env import SecretsError
from servers.models import Run
from servers.state import box_samples

log = logging.getLogger(__name__)

PATIENCE = timedelta(minutes=10)
GIB = 2**30


def short_of(run: Run) -> str:
    """What its GPUs lack, in a sentence; "" when there is room, or nobody can tell.

    Raises CardsError when the box has not the GPUs.
    """
    wanted = run.version.launch.free_memory
    if not wanted:
        return ""
    gpus = gpu_assignment.settle(run)
    found = (
        None if gpus == "none" else available.free(box_samples.newest(run.server.box.slug), gpus)
    )
    if found is None:
        return ""
    index, least = min(found.items(), key=lambda each: each[1])
    if least >= wanted:
        return ""
    return (
        f"GPU {index} has {least / GIB:.0f} of the {wanted / GIB:.0f} GiB free that it waits for."
    )


def drop_cache(run: Run) -> None:
    """Drop the box's page cache if the profile wants it, and nobody is on a GPU.

    Raises Refused where the box does not allow it, ContainerError when Docker does not.
    """
    if not run.version.launch.drop_cache:
        return
    if not creation.read_limits().reclaim:
        raise SecretsError(
            f"{run.server.box} does not let profiles drop its page cache, as this one wants. "
            f"{limits.granted_by(settings.MANAGE, 'reclaim')}. Or take it out of the profile."
        )
    # Pages of an engine's own files would have to be read again while it serves.
    sample = box_samples.newest(run.server.box.slug)
    if holders.others(sample or {}, ()):
        log.info("run %s: the page cache stays, as somebody is on a GPU", run.pk)
        return
    page_cache.drop_caches(creation.docker(), root=settings.HOST_ROOT)


def is_out_of_patience(run: Run) -> bool:
    since = max(run.moved_at, run.turn_at) if run.turn_at else run.moved_at
    return timezone.now() - since > PATIENCE

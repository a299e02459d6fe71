"""Whether a box has the memory free that a profile wants to find before it is started."""

from datetime import timedelta

from django.utils import timezone

from servers import live
from servers.judge import memory
from servers.lifecycle import cards
from servers.models import Run

PATIENCE = timedelta(minutes=10)
GIB = 2**30


def short_of(run: Run) -> str:
    """What its GPUs lack, in a sentence; "" when there is room, or nobody can tell.

    Raises CardsError when the box has not the GPUs.
    """
    wanted = run.version.launch.free_memory
    if not wanted:
        return ""
    gpus = cards.settle(run)
    found = None if gpus == "none" else memory.free(live.sample(run.server.box.slug), gpus)
    if found is None:
        return ""
    index, least = min(found.items(), key=lambda each: each[1])
    if least >= wanted:
        return ""
    return (
        f"GPU {index} has {least / GIB:.0f} of the {wanted / GIB:.0f} GiB free that it waits for."
    )


def is_out_of_patience(run: Run) -> bool:
    return timezone.now() - run.moved_at > PATIENCE

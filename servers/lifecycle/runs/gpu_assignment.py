"""GPUs of a run whose profile names a kind and not indices."""

from collections.abc import Collection, Iterable

from django.db import transaction

from servers.launch.engines import placement
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import CardsError, Gpu
from servers.models import Box, Claim, Run

__all__ = ["CardsError", "choose", "settle"]


def settle(run: Run) -> str:
    """The GPUs of this run as Docker takes them; the first answer stays, and is on the row.

    Raises CardsError.
    """
    with transaction.atomic():
        # Two starts at once would both find the same cards idle.
        box = Box.objects.select_for_update().get(pk=run.server.box_id)
        said = Run.objects.values_list("gpus", flat=True).get(pk=run.pk)
        if not said:
            busy = _used_by_others(run, box) | _claimed_by_others(run.started_by_id, box)
            said = choose(run.version.launch, box, busy=busy)
            Run.objects.filter(pk=run.pk).update(gpus=said)
    run.gpus = said
    return said


def choose(launch: Launch, box: Box, *, busy: Collection[int] | None = None) -> str:
    """ "all", "none" or indices. Raises CardsError when the box has too few, or says nothing yet."""
    wanted = placement.parse_gpu_requirement(launch.gpus)
    if wanted is None:
        return launch.gpus
    if box.gpus is None:
        raise CardsError(
            f"The profile wants {wanted}, and {box} has not reported its GPUs yet. Start again in a "
            "minute; if it still has not, the box's page says what is missing."
        )
    if busy is None:
        busy = _used_by_others(None, box) | _claimed_by_others(None, box)
    there: list[tuple[int, Gpu]] = [
        (card["index"], (card["name"] or "", card["compute_capability"] or "")) for card in box.gpus
    ]
    return ",".join(map(str, placement.choose_gpus(wanted, there, busy=busy)))


def busy(box: Box, active: Iterable[Run], claims: Iterable[Claim]) -> set[int]:
    """What a start by nobody in particular finds taken or claimed."""
    return _list_used_gpus(active, box) | {index for each in claims for index in each.gpus}


def _used_by_others(run: Run | None, box: Box) -> set[int]:
    """Cards that active runs of this box have, or will get because their profiles name them."""
    others = Run.objects.active().filter(server__box=box).select_related("version")
    return _list_used_gpus(others if run is None else others.exclude(pk=run.pk), box)


def _list_used_gpus(runs: Iterable[Run], box: Box) -> set[int]:
    used: set[int] = set()
    for other in runs:
        said = other.gpus or other.version.launch.gpus
        if said == "all":
            used.update(card["index"] for card in box.gpus or ())
        elif said.replace(",", "").isdigit():
            used.update(map(int, said.split(",")))
    return used


def _claimed_by_others(person: int | None, box: Box) -> set[int]:
    return {index for each in box.claims.active() if each.by_id != person for index in each.gpus}

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
            others = Run.objects.active().filter(server__box=box).exclude(pk=run.pk)
            claims = box.claims.active().exclude(by=run.started_by_id)
            taken = busy(box, others.select_related("version"), claims)
            said = choose(run.version.launch, box, busy=taken)
            Run.objects.filter(pk=run.pk).update(gpus=said)
    run.gpus = said
    return said


def choose(launch: Launch, box: Box, *, busy: Collection[int]) -> str:
    """ "all", "none" or indices. Raises CardsError when the box has too few, or says nothing yet."""
    wanted = placement.parse_gpu_requirement(launch.gpus)
    if wanted is None:
        return launch.gpus
    if box.gpus is None:
        raise CardsError(
            f"The profile wants {wanted}, and {box} has not reported its GPUs yet. Start again in a "
            "minute; if it still has not, the box's page says what is missing."
        )
    there: list[tuple[int, Gpu]] = [
        (card["index"], (card["name"] or "", card["compute_capability"] or "")) for card in box.gpus
    ]
    return ",".join(map(str, placement.choose_gpus(wanted, there, busy=busy)))


def busy(box: Box, active: Iterable[Run], claims: Iterable[Claim]) -> set[int]:
    """Cards that these runs have, or will get because their profiles name them, and claimed ones."""
    used = {index for each in claims for index in each.gpus}
    for other in active:
        said = other.gpus or other.version.launch.gpus
        if said == "all":
            used.update(card["index"] for card in box.gpus or ())
        elif said.replace(",", "").isdigit():
            used.update(map(int, said.split(",")))
    return used

"""Runs whose engines may be heads of a Ray cluster."""

from collections.abc import Iterable

from servers.launch.commandline import clusters
from servers.models import Run


def list_ray_heads() -> list[int]:
    """Servers whose engines may have workers on other boxes, by their rows' numbers."""
    return [run.server_id for run in list_ray_runs()]


def list_ray_runs() -> Iterable[Run]:
    active = Run.objects.active().filter(server__removed_at=None)
    for run in active.select_related("server__box", "version").order_by("pk"):
        if clusters.uses_ray(run.launch, run.start.command):
            yield run

"""A collector's sample together with what else the judge of a box's memory wants to know."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from servers.host.kernel import shm
from servers.models import Box, HostResources, Run
from servers.models.runs.run import ACTIVE, RunState

# A worker that outlives its container is there for days, until somebody sees it.
REMEMBERED = timedelta(days=7)


def complete(sample: dict[str, Any], box: Box) -> dict[str, Any]:
    """The sample with this install's containers, the box's shared memory and its disks."""
    more = {"containers": containers(box), "shm": shared_memory(), "events": []}
    return sample | more | {"pending": find_pending_start(box), "disks": disks(box)}


def find_pending_start(box: Box) -> dict[str, Any] | None:
    """The start that has waited longest for free memory, and what it wants of each GPU."""
    queued = Run.objects.filter(server__box__slug=box.slug, state=RunState.QUEUED)
    launches = (run.version.launch for run in queued.select_related("version").order_by("pk"))
    wants = (each for each in launches if each.free_memory)
    return next(({"engine": each.engine, "needs": each.free_memory} for each in wants), None)


def disks(box: Box, *, not_before: datetime | None = None) -> dict[str, Any] | None:
    """As the watcher has written them down last (models.host_resources); None: not, or long ago."""
    kept = HostResources.objects.filter(box__slug=box.slug)
    if not_before is not None:
        kept = kept.filter(seen_at__gte=not_before)
    found = kept.values_list("found", flat=True).first()
    told: dict[str, Any] | None = (found or {}).get("disks")
    return told


def shared_memory() -> list[dict[str, Any]]:
    found = shm.segments(settings.HOST_ROOT)
    return [{"path": each.path, "bytes": each.bytes, "mapped": each.mapped} for each in found]


def containers(box: Box) -> list[dict[str, Any]]:
    """Those of the runs that are active or have ended lately, also where Docker has none left."""
    runs = Run.objects.filter(server__box__slug=box.slug).exclude(container_id="")
    active = runs.filter(state__in=ACTIVE)
    ended = runs.filter(ended_at__gt=timezone.now() - REMEMBERED).exclude(state__in=ACTIVE)
    # A watched container that was started again is that of two runs.
    ended = ended.exclude(container_id__in=active.filter(is_watched=True).values("container_id"))
    return [
        {
            "id": run.container_id,
            "run": run.pk,
            "ours": True,
            "state": "exited" if run.ended_at else "running",
            "stopped_at": run.ended_at.timestamp() if run.ended_at else None,
        }
        for run in (*active, *ended)
    ]

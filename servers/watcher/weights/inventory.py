"""The model scan: checkpoints on the box's disks, now and then and on request."""

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from servers import events
from servers.host.files.paths import PathError
from servers.host.weights.inventory import Inventory
from servers.host.weights.stored import Checkpoint
from servers.judge.runs.limits import LimitsError
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import Launch
from servers.lifecycle.runs import creation
from servers.lifecycle.weights import inventory
from servers.models import Box, ModelInventory, Run

log = logging.getLogger(__name__)

EVERY = timedelta(minutes=15)
# After a look, starts wait so many times as long as it took, and so many seconds at least: a box
# on which something starts all the time does little else than look else.
REST, REST_AT_LEAST = 9, 5.0


class ModelScan:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._inventory = Inventory()
        self._rests_until = float("-inf")

    def look(self, *, go_on: Callable[[], bool]) -> float | None:
        """If it is time, somebody wants it, or a start has mounted something since.

        May take minutes: disks may be slow or asleep. Returns in how many seconds a start is
        looked after; None where no start waits for that.
        """
        known, _is_new = ModelInventory.objects.get_or_create(box=self.box)
        now = timezone.now()
        is_due = known.looked_at is None or now - known.looked_at >= EVERY
        if not (is_due or known.is_wanted):
            if not mounted_since(self.box, known.looked_at):
                return None
            if (rest := self._rests_until - time.monotonic()) > 0:
                return rest
        began = time.monotonic()
        # By these settings of now: who changes them and asks during this look is not answered by it.
        self.box.refresh_from_db(fields=["home", "hf_cache", "model_folders"])
        ModelInventory.objects.filter(pk=known.pk).update(looking_since=now)
        events.publish_change("stock")
        try:
            self._look(known, now, go_on)
        finally:
            ModelInventory.objects.filter(pk=known.pk).update(looking_since=None)
            events.publish_change("stock")
            ended = time.monotonic()
            self._rests_until = ended + max(REST_AT_LEAST, REST * (ended - began))
        return None

    def _look(self, known: ModelInventory, began: datetime, go_on: Callable[[], bool]) -> None:
        try:
            roots = inventory.roots(self.box)
            files = creation.box_files()
        except (OSError, LimitsError, PathError) as error:
            log.warning("could not look for models on this box: %s", error)
            return
        reports = []
        found: dict[str, Checkpoint] = {}
        for root in roots:
            if not go_on():
                return
            looked = None if root.refused else self._inventory.look(root.path, files)
            reports.append(inventory.report(root, looked))
            # One folder may lie below another.
            found |= {each.path: each for each in (looked.found if looked else ())}
        inventory.keep(self.box, found.values())
        ModelInventory.objects.filter(pk=known.pk).update(roots=reports, looked_at=began)


def mounted_since(box: Box, looked_at: datetime | None) -> bool:
    """Whether a container began with mounts, or was ready with what it has downloaded, since."""
    if looked_at is None:
        return True
    news = Q(started_at__gt=looked_at) | Q(ready_at__gt=looked_at)
    runs = Run.objects.filter(news, server__box=box).select_related("version")
    return any(_mounts(each.version.launch) for each in runs.fetch_any())


def _mounts(launch: Launch) -> bool:
    has_cache = launch.mount_hf_cache and ENGINES[launch.engine].serves_models
    return bool(launch.volumes) or has_cache

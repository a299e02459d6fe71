"""The model scan: checkpoints on the box's disks, now and then and on request."""

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from servers import events
from servers.host.files.paths import PathError
from servers.host.kernel import resources
from servers.host.weights.hub import HubError, RemoteModel
from servers.host.weights.inventory import Inventory
from servers.host.weights.stored import Checkpoint
from servers.judge.runs.limits import LimitsError
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import VolumeError
from servers.lifecycle.images.inventory import list_placed_servers, next_launch
from servers.lifecycle.runs import creation
from servers.lifecycle.weights import inventory
from servers.models import Box, CheckpointFacts, ModelInventory, Run

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
        known.write(looking_since=now.isoformat())
        events.publish_change("models")
        try:
            self._look(known, now, go_on)
        finally:
            known.write(looking_since="")
            events.publish_change("models")
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
            disk = resources.disk(root.path, root=settings.HOST_ROOT) if looked else None
            reports.append(inventory.report(root, looked, disk))
            # One folder may lie below another.
            found |= {each.path: each for each in (looked.found if looked else ())}
        inventory.keep(self.box, found.values())
        known.write(roots=reports, looked_at=began)


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


# Seconds between two questions to the Hub about one model, and after it did not answer.
ASK_AGAIN = 3600.0
TRY_AGAIN = 600.0

type AskHub = Callable[[str, Box], RemoteModel | None]


class HubSizes:
    """What the Hub has said, asked seldom: most boxes are offline, or have what they need."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[float, RemoteModel | None]] = {}
        self._away = float("-inf")

    def __call__(self, name: str, box: Box) -> RemoteModel | None:
        due, said = self._said.get(name, (float("-inf"), None))
        now = time.monotonic()
        if now < due or now < self._away:
            return said
        try:
            said = inventory.ask_hub(name, box)
        except HubError as error:
            # For all models: whoever is offline is so for every one.
            self._away = now + TRY_AGAIN
            log.info("nobody tells how large %s is: %s", name, error)
            return said
        self._said[name] = now + ASK_AGAIN, said
        return said


def look_at_checkpoints(box: Box, ask_hub: AskHub | None = None) -> None:
    """Write down what config.json and the weights of each say; forget what is gone."""
    box.refresh_from_db(fields=["home", "hf_cache", "hf_token"])  # people change them
    found: dict[str, dict[str, Any]] = {}
    missing = []
    try:
        for source in _list_named(box):
            if (checkpoint := inventory.look(source, box)) is not None:
                found[source] = inventory.facts(checkpoint)
            else:
                missing.append(source)
    except (OSError, LimitsError, VolumeError) as error:
        log.warning("could not look at the checkpoints of this box: %s", error)
        return
    # What is here counts at once, whatever the Hub takes to answer.
    _keep(box, found, also=missing)
    if ask_hub is None:
        return
    for source in missing:
        if (remote := ask_hub(source, box)) is not None:
            found[source] = inventory.remote_facts(remote)
    # Away, it takes nothing back; switched off, nobody would ever correct it.
    _keep(box, found, also=missing if settings.HUB else None)


def _keep(box: Box, found: dict[str, dict[str, Any]], *, also: list[str] | None = None) -> None:
    """`also` are not to be forgotten yet, if the Hub has told of them."""
    gone = CheckpointFacts.objects.filter(box=box).exclude(source__in=found)
    gone.exclude(source__in=also or (), remote__gt="").delete()
    for source, seen in found.items():
        known = CheckpointFacts.objects.filter(box=box, source=source).first()
        if known is None or {name: getattr(known, name) for name in seen} != seen:
            values = seen | {"changed_at": timezone.now()}
            CheckpointFacts.objects.update_or_create(box=box, source=source, defaults=values)


def _list_named(box: Box) -> set[str]:
    launches = map(next_launch, list_placed_servers(box))
    return {source for each in launches if (source := inventory.source(each, box))}

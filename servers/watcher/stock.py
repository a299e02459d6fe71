"""Looks now and then at which checkpoints lie on the box's disks, and when somebody asks."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from django.utils import timezone

from servers import live
from servers.host.inventory import Inventory
from servers.host.paths import PathError
from servers.host.stored import Checkpoint
from servers.judge.limits import LimitsError
from servers.lifecycle import creation, stock
from servers.models import Box, Stock

log = logging.getLogger(__name__)

EVERY = timedelta(minutes=15)


class Stocktaking:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._inventory = Inventory()

    def look(self, *, go_on: Callable[[], bool]) -> None:
        """If it is time, or somebody wants it. May take minutes: disks may be slow or asleep."""
        known, _is_new = Stock.objects.get_or_create(box=self.box)
        now = timezone.now()
        is_due = known.looked_at is None or now - known.looked_at >= EVERY
        if not (is_due or known.is_wanted):
            return
        # By these settings of now: who changes them and asks during this look is not answered by it.
        self.box.refresh_from_db(fields=["home", "hf_cache", "model_folders"])
        Stock.objects.filter(pk=known.pk).update(looking_since=now)
        live.stock_changed()
        try:
            self._look(known, now, go_on)
        finally:
            Stock.objects.filter(pk=known.pk).update(looking_since=None)
            live.stock_changed()

    def _look(self, known: Stock, began: datetime, go_on: Callable[[], bool]) -> None:
        try:
            roots = stock.roots(self.box)
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
            reports.append(stock.report(root, looked))
            # One folder may lie below another.
            found |= {each.path: each for each in (looked.found if looked else ())}
        stock.keep(self.box, found.values())
        Stock.objects.filter(pk=known.pk).update(roots=reports, looked_at=began)

"""Orphans in the box's row."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from servers import events
from servers.host.docker.containers import ContainerError
from servers.host.kernel import shm
from servers.host.kernel.shm import SharedSegment
from servers.lifecycle.memory import orphans
from servers.models import Box

log = logging.getLogger(__name__)

# Seconds between two looks at it, each of which is one at every process.
SHM_EVERY = 60.0


class OrphanMonitor:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._kept = list(box.left_behind)
        self._segments: list[SharedSegment] = []
        self._looked_at = float("-inf")

    def look(self, sample: Mapping[str, Any] | None, *, at_all: bool) -> None:
        """`at_all`: at shared memory too, because something was done."""
        if at_all or time.monotonic() - self._looked_at > SHM_EVERY:
            self._looked_at = time.monotonic()
            self._segments = shm.segments(settings.HOST_ROOT)
        try:
            looked = orphans.look(self.box, sample, self._segments)
            found = [each.to_json() for each in looked]
        except ContainerError as error:
            log.warning("What engines left behind is not known: %s", error)
            return
        if found == self._kept:
            return
        for each in found:
            if each["key"] not in {known["key"] for known in self._kept}:
                log.info("Left behind: %s. %s", each["what"], each["why"])
        self._kept = found
        Box.objects.filter(pk=self.box.pk).update(left_behind=found)
        events.publish_change("box", self.box.pk)

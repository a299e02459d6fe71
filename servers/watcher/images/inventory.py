"""The watcher's image inventory, image jobs, and questions to registries."""

import logging
import time
from collections.abc import Callable

from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError
from servers.lifecycle.images import credentials, jobs, newer_builds, pruning
from servers.lifecycle.runs import creation
from servers.models import Box, ImageInventory, Run

log = logging.getLogger(__name__)

LOOK_EVERY = 30.0  # seconds
AFTER_A_START = 5.0  # since the last look, however many starts there are
# Adding up what images share costs Docker a walk over its layers.
SIZES_EVERY = 600.0


class ImageInventories:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._looked_at = float("-inf")
        self._sizes_at = float("-inf")

    def step(self) -> None:
        """Begin and end what is asked for, and look if it is time or somebody wants it."""
        has_ended = jobs.obey(self.box)
        credentials.test_wanted(self.box, creation.docker())
        known, _is_new = ImageInventory.objects.get_or_create(box=self.box)
        age = time.monotonic() - self._looked_at
        is_due = age >= LOOK_EVERY or (age >= AFTER_A_START and self._has_started(known))
        if is_due or has_ended or known.is_wanted:
            self._look(known, is_asked=has_ended or known.is_wanted)

    def _has_started(self, known: ImageInventory) -> bool:
        """Whether a container of a run began since the last look: its image may be new here."""
        if known.looked_at is None:
            return True
        return Run.objects.filter(server__box=self.box, started_at__gt=known.looked_at).exists()

    def _look(self, known: ImageInventory, *, is_asked: bool) -> None:
        began = timezone.now()
        self._looked_at = time.monotonic()
        docker = creation.docker()
        with_sizes = is_asked or time.monotonic() - self._sizes_at >= SIZES_EVERY
        try:
            changed = pruning.look(self.box, docker, with_sizes=False)
            if with_sizes or changed:
                changed = pruning.look(self.box, docker, with_sizes=True) or changed
                self._sizes_at = time.monotonic()
            error = ""
        except ContainerError as failure:
            error, changed = str(failure), str(failure) != known.error
            log.warning("Images cannot be looked at: %s", failure)
        was_wanted = known.is_wanted
        ImageInventory.objects.filter(pk=known.pk).update(looked_at=began, error=error)
        if changed or was_wanted or known.looked_at is None:
            events.publish_change("images")

    def ask_registries(self, *, go_on: Callable[[], bool]) -> None:
        """If it is time. May take minutes: a registry may be far away, or not there."""
        known = ImageInventory.objects.filter(box=self.box).first()
        if newer_builds.is_due(self.box, known):
            newer_builds.look(self.box, creation.docker(), go_on=go_on)

"""Keeps in the box's row what engines have left on it."""

import logging
from collections.abc import Mapping
from typing import Any

from servers import live
from servers.host.containers import ContainerError
from servers.lifecycle import leftbehind
from servers.models import Box

log = logging.getLogger(__name__)


class LeftBehind:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._kept = list(box.left_behind)

    def look(self, sample: Mapping[str, Any] | None) -> None:
        try:
            found = [each.to_json() for each in leftbehind.look(self.box, sample)]
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
        live.box_changed(self.box.pk)

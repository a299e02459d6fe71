"""The hardware monitor: each sample is judged."""

import time
from datetime import timedelta
from typing import Any

from django.utils import timezone

from servers.judge.memory.hardware import HardwareJudge
from servers.models import Box
from servers.watcher.memory import snapshots

# Seconds: the disks are written down about as often.
DISKS_EVERY = 10.0
# Older figures tell nothing of now.
DISKS_KEEP = timedelta(minutes=2)


class HardwareMonitor:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._judge = HardwareJudge()
        self._disks: dict[str, Any] | None = None
        self._looked_at = float("-inf")

    def judge(self, sample: dict[str, Any]) -> dict[str, Any]:
        """The sample with its findings, and the disks that they are about."""
        if time.monotonic() - self._looked_at >= DISKS_EVERY:
            self._looked_at = time.monotonic()
            self._disks = snapshots.disks(self.box, not_before=timezone.now() - DISKS_KEEP)
        whole = sample | {"disks": self._disks}
        return whole | {"findings": [each.to_json() for each in self._judge.step(whole)]}

"""The memory monitor: each sample is judged, and the baseline kept."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast

from django.conf import settings

from servers.judge.memory.verdicts import Judge
from servers.models import Box
from servers.watcher.memory import snapshots

# Seconds: who looks at every process's maps, or at the database, need not do so each second.
SHM_EVERY = 60.0
CONTAINERS_EVERY = 5.0


class MemoryMonitor:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._best = dict(box.memory_best)
        self._judge = Judge(settings.MEMORY_THRESHOLDS, best=self._best)
        self._kept: dict[str, tuple[float, Any]] = {}
        self.snapshot: dict[str, Any] = {}  # the last that was judged
        self._events: deque[Mapping[str, Any]] = deque()

    def tell(self, event: Mapping[str, Any]) -> None:
        """Something that was done to the memory, for the judge; from any thread."""
        self._events.append(event)

    def judge(self, sample: dict[str, Any]) -> dict[str, Any]:
        """The sample with a verdict for each of its GPUs."""
        is_unified = any(card.get("kind") == "unified" for card in sample.get("gpus") or [])
        snapshot = sample | {
            "containers": self._now_and_then(
                "containers", CONTAINERS_EVERY, lambda: snapshots.containers(self.box)
            ),
            # Elsewhere shared memory is not the GPU's.
            "shm": self._now_and_then("shm", SHM_EVERY, snapshots.shared_memory)
            if is_unified
            else [],
            "pending": self._now_and_then(
                "pending", CONTAINERS_EVERY, lambda: snapshots.find_pending_start(self.box)
            ),
            "events": [self._events.popleft() for _ in range(len(self._events))],
        }
        self.snapshot = snapshot
        before = dict(self._best)
        verdicts = [each.to_json() for each in self._judge.step(snapshot)]
        if self._best != before:
            Box.objects.filter(pk=self.box.pk).update(memory_best=self._best)
        return sample | {"verdicts": verdicts}

    def _now_and_then[Found](self, name: str, seconds: float, look: Callable[[], Found]) -> Found:
        looked_at, found = self._kept.get(name, (float("-inf"), None))
        if time.monotonic() - looked_at >= seconds:
            found = look()
            self._kept[name] = (time.monotonic(), found)
        return cast(Found, found)

"""The recorder of GPU history, a point a second."""

import time
from typing import Any

from servers.judge.memory import history, holders
from servers.models import Box, HistoryChunk, Run
from servers.state import box_samples
from servers.watcher.memory.rollups import Rollups

NAMES_EVERY = 5.0


class HistoryRecorder(Rollups):
    """For one box. see() and write() may be called from different threads."""

    def __init__(self, box: Box) -> None:
        super().__init__(
            box, HistoryChunk, finest=1, show=lambda body: box_samples.keep_recent(box.slug, body)
        )
        self._names, self._named_at = self._servers(), time.monotonic()

    def see(self, sample: dict[str, Any]) -> None:
        """Take up a judged sample."""
        if sample.get("stale_s") is not None:
            return  # what is only repeated was not seen
        points = {gpu.key: history.point(gpu) for gpu in holders.gpus(sample, self._names)}
        if time.monotonic() - self._named_at >= NAMES_EVERY:
            self._named_at = time.monotonic()
            self._names = self._servers()
        self.take_up(int(sample["t"]), points)

    def _servers(self) -> dict[str, str]:
        """Slugs by container."""
        active = Run.objects.active().filter(server__box=self.box).exclude(container_id="")
        return dict(active.values_list("container_id", "server__slug"))

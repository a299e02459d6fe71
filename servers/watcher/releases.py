"""Sees to it that each run's memory comes back after its end, with every sample."""

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from servers.lifecycle import releases
from servers.models import Box, Run
from servers.watcher import snapshots

# Seconds before an end in which an engine may have begun to let go of its memory.
_BEFORE = 120.0
# Seconds between two looks at shared memory, which is a look at every process.
_LOOK_EVERY = 5.0


class Releases:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._held: dict[int, deque[tuple[float, int]]] = {}
        self._shm: list[dict[str, Any]] = []
        self._looked_at = float("-inf")

    def see(self, snapshot: Mapping[str, Any]) -> None:
        """`snapshot` is a sample with the box's shared memory, where that is the GPU's too."""
        runs = releases.watched(self.box)
        if snapshot.get("shm") and any(_is_on_its_way(run) for run in runs):
            snapshot = {**snapshot, "shm": self._shared_memory()}
        for run in runs:
            seen = releases.look(run, snapshot)
            if run.ended_at is not None:
                lately = self._held.get(run.pk)
                held = max((size for _t, size in lately), default=None) if lately else None
                releases.note(run, seen, held=held)
            elif seen is not None:
                self._remember(run, seen.t, seen.size)
        self._held = {run.pk: self._held[run.pk] for run in runs if run.pk in self._held}

    def _shared_memory(self) -> list[dict[str, Any]]:
        """What an engine has mapped until a moment ago is nobody's now."""
        if time.monotonic() - self._looked_at > _LOOK_EVERY:
            self._looked_at, self._shm = time.monotonic(), snapshots.shared_memory()
        return self._shm

    def _remember(self, run: Run, t: float, size: int) -> None:
        lately = self._held.setdefault(run.pk, deque())
        lately.append((t, size))
        # One that is being stopped held the most before that, however long it takes.
        while run.stopping_at is None and lately[0][0] < t - _BEFORE:
            lately.popleft()


def _is_on_its_way(run: Run) -> bool:
    return run.ended_at is not None and run.release.outcome in ("", "releasing")

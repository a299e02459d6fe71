"""Memory releases of runs, followed with every sample."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from servers.lifecycle.memory import releases
from servers.models import Box, Run
from servers.watcher.memory import snapshots

# Seconds before an end in which an engine may have begun to let go of its memory.
_BEFORE = 120.0
# Seconds between two looks at shared memory, which is a look at every process.
_LOOK_EVERY = 5.0


@dataclass
class _Seen:
    """What was seen of an engine while it ran."""

    held: deque[tuple[float, int]] = field(default_factory=deque)
    pids: set[int] = field(default_factory=set)


class ReleaseMonitor:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._seen: dict[int, _Seen] = {}
        self._shm: list[dict[str, Any]] = []
        self._looked_at = float("-inf")

    def see(self, snapshot: Mapping[str, Any]) -> None:
        """`snapshot` is a sample with the box's shared memory, where that is the GPU's too."""
        runs = releases.list_watched_runs(self.box)
        if snapshot.get("shm") and any(_is_on_its_way(run) for run in runs):
            snapshot = {**snapshot, "shm": self._shared_memory()}
        self._seen = {run.pk: self._seen.get(run.pk, _Seen()) for run in runs}
        for run in runs:
            before = self._seen[run.pk]
            found = releases.look(run, snapshot, before.pids)
            if run.ended_at is not None:
                held = max((size for _t, size in before.held), default=None)
                releases.note(run, found, held=held)
            elif found is not None:
                self._remember(run, before, found.t, found.size)
                before.pids |= _pids(snapshot, run.container_id)

    def _shared_memory(self) -> list[dict[str, Any]]:
        """What an engine has mapped until a moment ago is nobody's now."""
        if time.monotonic() - self._looked_at > _LOOK_EVERY:
            self._looked_at, self._shm = time.monotonic(), snapshots.shared_memory()
        return self._shm

    def _remember(self, run: Run, before: _Seen, t: float, size: int) -> None:
        before.held.append((t, size))
        # One that is being stopped held the most before that, however long it takes.
        while run.stopping_at is None and before.held[0][0] < t - _BEFORE:
            before.held.popleft()


def _pids(snapshot: Mapping[str, Any], container: str) -> set[int]:
    processes = snapshot.get("processes") or []
    return {each["pid"] for each in processes if each.get("container") == container}


def _is_on_its_way(run: Run) -> bool:
    return run.ended_at is not None and run.release.outcome in ("", "releasing")

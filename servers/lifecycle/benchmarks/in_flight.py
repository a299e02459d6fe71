"""Requests of check-ups that engines count among all others, so that they are not taken for people's.

In memory: a box's check-ups and its probes are threads of one process, its watcher.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_lock = threading.Lock()


@dataclass
class _Load:
    """`most` of now, and `before` until it fell: an engine may still tell of those."""

    most: int = 0
    before: int = 0
    fell_at: float = float("-inf")
    is_over: bool = False

    def change(self, most: int) -> None:
        if most < self.most:
            self.before, self.fell_at = self.most, time.monotonic()
        self.most = most

    def count(self, settles: float) -> int:
        is_settled = time.monotonic() - self.fell_at >= settles
        return self.most if is_settled else max(self.most, self.before)


_loads: dict[int, _Load] = {}  # by run


@contextmanager
def note_run(run_id: int) -> Iterator[None]:
    """While this run is measured."""
    with _lock:
        _loads[run_id] = _Load()
    try:
        yield
    finally:
        with _lock:
            _loads[run_id].change(0)
            _loads[run_id].is_over = True


def note_most(run_id: int, most: int) -> None:
    """So many of its requests at once may be the check-up's, from now on."""
    with _lock:
        _loads[run_id].change(most)


def is_measured(run_id: int) -> bool:
    load = _loads.get(run_id)
    return load is not None and not load.is_over


def count(run_id: int, settles: float) -> int:
    """How many of its requests may be the check-up's. `settles`: for so many seconds after they
    have become fewer an engine may still tell of them."""
    with _lock:
        load = _loads.get(run_id)
        if load is None:
            return 0
        found = load.count(settles)
        if load.is_over and not found:
            del _loads[run_id]
        return found

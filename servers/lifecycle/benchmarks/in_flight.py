"""Requests of check-ups that engines count among all others, so that they are not taken for people's.

In memory: a box's check-ups and its probes are threads of one process, its watcher.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_most: dict[int, int] = {}  # by run
_ended: dict[int, tuple[int, float]] = {}  # by run: how many there were, and until when


@contextmanager
def note_run(run_id: int) -> Iterator[None]:
    """While this run is measured."""
    with _lock:
        _most[run_id] = 1
        _ended.pop(run_id, None)
    try:
        yield
    finally:
        with _lock:
            _ended[run_id] = _most.pop(run_id), time.monotonic()


def note_most(run_id: int, most: int) -> None:
    """So many of its requests at once may be the check-up's, from now on."""
    with _lock:
        _most[run_id] = most


def is_measured(run_id: int) -> bool:
    return run_id in _most


def count(run_id: int, settles: float) -> int:
    """How many of its requests may be the check-up's. `settles`: for so many seconds after the
    end an engine may still tell of them."""
    with _lock:
        if run_id in _most:
            return _most[run_id]
        most, ended = _ended.get(run_id, (0, 0.0))
        if most and time.monotonic() - ended >= settles:
            del _ended[run_id]
            return 0
        return most

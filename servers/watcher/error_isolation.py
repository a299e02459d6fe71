"""Rounds of the watcher that break by a fault of ours: the others go on, and the box's page says so."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from django.db.utils import InterfaceError, OperationalError

# Seconds. What is broken for so long without a good round in between may be so by what this process
# has in mind: it ends, and its successor begins anew.
TOO_LONG = 300.0
SAID_AGAIN = 600.0

# By the name of a loop's thread.
LOOP_WORDS = {
    "run_reconciler": "the states of servers",
    "run_prober": "the health of engines",
    "run_start_reader": "the phases of starts",
    "run_sampler": "GPUs and memory",
    "run_docker_events": "Docker’s events of servers",
    "run_wakes": "requests from pages",
    "run_jobs": "jobs on the box",
    "run_orphan_scan": "what engines have left behind",
    "run_load_guard": "memory while models are loaded",
    "run_oom_reader": "OOM kills",
    "run_image_inspection": "versions and flags of images",
    "run_checkpoint_scan": "the models that profiles name",
    "run_external_scan": "external engines",
    "run_external_events": "Docker’s events of external engines",
    "run_alerts": "alerts",
    "run_model_scan": "the models on disks",
    "run_image_inventory": "images",
    "run_registry_checks": "newer images at registries",
}

type Work = Callable[[], None]


def thread_name(loop: Work) -> str:
    return getattr(loop, "__name__", "").strip("_")


@dataclass(slots=True)
class _Fault:
    kind: str  # of exception: its text may have anything in it
    since: float
    said_at: float


class LoopFaults:
    """By loop and work; used by all threads of the watcher."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], _Fault] = {}
        self._lock = threading.Lock()

    def broke(self, work: Work, error: Exception) -> bool:
        """Whether that is news, to be written to the log with all that is known."""
        key, now, kind = _key(work), time.monotonic(), type(error).__name__
        with self._lock:
            before = self._open.get(key)
            if before is None:
                self._open[key] = _Fault(kind=kind, since=now, said_at=now)
                return True
            is_news = before.kind != kind or now - before.said_at >= SAID_AGAIN
            before.kind, before.said_at = kind, now if is_news else before.said_at
            return is_news

    def went_well(self, work: Work) -> None:
        with self._lock:
            self._open.pop(_key(work), None)

    def is_too_long(self, work: Work) -> bool:
        with self._lock:
            found = self._open.get(_key(work))
        return found is not None and time.monotonic() - found.since >= TOO_LONG

    def problems(self) -> list[dict[str, str]]:
        """As a box's row has them."""
        with self._lock:
            found = {loop: fault.kind for (loop, _work), fault in self._open.items()}
        return [
            {
                "what": f"An error in inferdash stops its updates of {LOOP_WORDS.get(loop, loop)}",
                "fix": f"What it shows of that may be old ({kind}). Report the error with the "
                "watcher’s log.",
            }
            for loop, kind in sorted(found.items())
        ]


class ErrorIsolation:
    """Work for several, one after the other: what breaks for one is raised when all had theirs.

    Use as a context manager. A database that is away is away for all of them.
    """

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if error is not None or not self._errors:
            return
        if len(self._errors) == 1:
            raise self._errors[0]
        raise ExceptionGroup("for several", self._errors)

    @contextmanager
    def each(self, whose: object) -> Iterator[None]:
        try:
            yield
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:
            error.add_note(f"It broke for {whose}.")
            self._errors.append(error)


def _key(work: Work) -> tuple[str, str]:
    does: Any = work.func if isinstance(work, partial) else work
    return threading.current_thread().name, getattr(does, "__qualname__", type(does).__name__)

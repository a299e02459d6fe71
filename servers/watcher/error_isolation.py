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

_WORDS = {
    "reconciling": "the states of servers",
    "asking": "how engines are",
    "sampling": "GPUs and memory",
    "docker_events": "what Docker tells of servers",
    "run_jobs": "what people want done on the box",
    "guarding": "memory while models are loaded",
    "asking_images": "versions and flags of images",
    "looking_at_checkpoints": "the models that profiles name",
    "looking_around": "what others run",
    "others_events": "what Docker tells of others",
    "alerting": "alerts",
    "taking_stock": "the models on disks",
    "looking_left_behind": "what engines have left behind",
    "keeping_shelves": "images",
    "asking_registries": "what registries have",
}

type Work = Callable[[], None]


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
                "what": f"inferdash itself fails at {_WORDS.get(loop, loop)}",
                "fix": f"What it shows of that may be old ({kind}). The watcher’s log says how it "
                "came, and is what a report of this fault needs.",
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

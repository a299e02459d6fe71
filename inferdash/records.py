"""Filters of log records."""

import logging
import threading
from dataclasses import dataclass

SERVER_FAULT = 500
MINUTE = 60.0
REFUSED_HOST = "django.security.DisallowedHost"
# Lines a minute about what visitors do wrong, by who says it: the longest name that fits counts.
MOST = {REFUSED_HOST: 1, "django.security": 30, "django.request": 30, "uvicorn.error": 30}
REQUESTS = "celery.worker.request"
NOT_TAKEN_OFF = (
    "Redis was away when a request was done, so it stays in the queue and comes once more."
)

# Seconds.
SAID_AGAIN = 600.0
IS_OVER = 60.0  # what was not said for so long is news when it is said again
KEPT = 500


class WithoutVisitorsFaults(logging.Filter):
    """Takes the traceback off what a visitor did wrong: an unknown host, a role too low.

    Django logs each with one, so that anybody could fill the log, and hide in it what matters.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        status = getattr(record, "status_code", SERVER_FAULT)
        if status < SERVER_FAULT and record.name.startswith(("django.request", "django.security")):
            record.exc_info = record.exc_text = None
        return True


class WithoutBrokerTracebacks(logging.Filter):
    """Says in a line that a request whose work is done is still in the queue: Redis was away.

    Celery logs it as critical, with a traceback. The request comes once more, and finds nothing
    to do.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == REQUESTS and str(record.msg).startswith("Couldn't ack"):
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.msg, record.args = NOT_TAKEN_OFF, ()
        return True


@dataclass(slots=True)
class _RecordCount:
    began: float = float("-inf")
    said: int = 0
    unsaid: int = 0


class BoundedVisitors(logging.Filter):
    """Passes on so many lines a minute about what visitors do wrong, and how many it has left out:
    else anybody who reaches the port could fill the disk, and bury in lines what matters."""

    def __init__(self) -> None:
        super().__init__()
        self._counted = {name: _RecordCount() for name in MOST}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        name = _visitors(record)
        if name is None:
            return True
        with self._lock:
            count = self._counted[name]
            if record.created - count.began >= MINUTE:
                if count.unsaid:
                    text = f"{record.getMessage()} ({count.unsaid} more before it were left out)"
                    record.msg, record.args = text, ()
                count.began, count.said, count.unsaid = record.created, 0, 0
            if count.said >= MOST[name]:
                count.unsaid += 1
                return False
            count.said += 1
        return True


def _visitors(record: logging.LogRecord) -> str | None:
    """Under which name of MOST it counts; None: it is no visitor's fault."""
    if record.name == REFUSED_HOST:
        return REFUSED_HOST
    if record.levelno > logging.WARNING or record.exc_info:
        return None
    fitting = (name for name in MOST if record.name == name or record.name.startswith(f"{name}."))
    return max(fitting, key=len, default=None)


@dataclass(slots=True)
class _Repeated:
    said: float
    last: float
    unsaid: int = 0


class WithoutRepeats(logging.Filter):
    """Passes on once in ten minutes what a loop of ours warns of in each of its rounds, and an
    outage that several loops meet.

    Not what visitors do, of which each time counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[str, str], _Repeated] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        is_ours = record.name.startswith("servers.")
        if not is_ours or record.levelno != logging.WARNING or record.exc_info:
            return True
        key, now = _name_outage(record) or (record.name, record.getMessage()), record.created
        text = record.getMessage()
        with self._lock:
            before = self._known.pop(key, None)
            if before is not None and now - before.last <= IS_OVER:
                before.last = now
                self._known[key] = before
                if now - before.said < SAID_AGAIN:
                    before.unsaid += 1
                    return False
                record.msg, record.args = f"{text} (still, said {before.unsaid} times since)", ()
                before.said, before.unsaid = now, 0
                return True
            self._known[key] = _Repeated(said=now, last=now)
            if len(self._known) > KEPT:
                del self._known[next(iter(self._known))]
        return True


def _name_outage(record: logging.LogRecord) -> tuple[str, str] | None:
    """What is away, for a record about that alone; its text becomes that sentence.

    Each loop meets the same outage with words of its own: one line for all of them is enough.
    """
    for each in record.args if isinstance(record.args, tuple) else ():
        if getattr(each, "is_outage", False):
            record.msg, record.args = str(each), ()
            return "outage", record.msg
    return None

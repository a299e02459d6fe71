"""The lock on a container's creation: one process at a time, released when it dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

from django.conf import settings

from servers.lifecycle.runs import creation
from servers.models import Run


@contextmanager
def lock_creation(run: Run) -> Iterator[bool]:
    """Whether the caller may make it; False while somebody else on this box is at it.

    The kernel ends the lock with its holder, however that ends. So whoever gets it and finds the
    run still *creating* knows that its maker is gone, and need not guess by the clock.
    """
    path = settings.DATA / "creating" / creation.container_name(run)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("w") as file:
        if not _try_lock(file, str(path)):
            yield False
            return
        try:
            yield True
        finally:
            path.unlink(missing_ok=True)


def _try_lock(file: TextIOWrapper, path: str) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Who held it may have removed the file meanwhile: then this one locks nothing.
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))  # noqa: PTH116
    except (BlockingIOError, FileNotFoundError):
        return False

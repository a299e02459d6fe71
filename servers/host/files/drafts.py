"""Drafts: hidden files that get their own name once they are whole, named by who writes them."""

import os
from contextlib import suppress
from itertools import islice

MOST_ENTRIES = 50_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def remove_stale(folder: int, name: str) -> None:
    """That of this name, and those of the same file whose processes were killed meanwhile.

    `folder` is an open one, also by O_PATH. `name` ends with this process's number.
    """
    stem, _dot, own = name.rpartition(".")
    opened = os.open(".", _FOLDER, dir_fd=folder)
    try:
        with os.scandir(opened) as entries:
            others = [each.name for each in islice(entries, MOST_ENTRIES)]
    finally:
        os.close(opened)
    for other in others:
        found, _dot, pid = other.rpartition(".")
        if found == stem and (pid == own or (pid.isdecimal() and not _is_running(int(pid)))):
            with suppress(FileNotFoundError):
                os.unlink(other, dir_fd=folder)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True

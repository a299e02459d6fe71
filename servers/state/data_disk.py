"""The data folder's disk: how much is free on it, and whether an error says that it is full."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db.utils import OperationalError

from servers.host.kernel import resources
from servers.judge.memory.hardware.machine import describe_full_data_disk, is_data_disk_full

log = logging.getLogger(__name__)

_DISK_FULL = "53100"  # PostgreSQL's class of errors, "disk_full"
# What SQLite says instead where it cannot make or lengthen a file of its own.
_MAY_MEAN_FULL = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
_PRIMARY = 0xFF  # of SQLite's extended codes, the part that all of a kind share


class DiskFullError(OperationalError):
    """What was asked for is not begun, because the data folder's disk is full; the text says so.

    As the database's own: who survives a database that is away survives this.
    """


def disk() -> resources.HostDisk | None:
    """None when nobody may look."""
    return resources.disk(str(settings.DATA))


def check_room() -> None:
    """Raises DiskFullError where the disk has no room for what a start writes."""
    found = disk()
    if found is not None and is_data_disk_full(found.free, found.total):
        raise DiskFullError(describe_full_data_disk())


def describe_full_disk(error: BaseException | None) -> str:
    """The sentence for an error that comes of a full disk; "" for any other."""
    while error is not None:
        if isinstance(error, DiskFullError):
            return str(error)
        if getattr(error, "sqlstate", None) == _DISK_FULL:
            return describe_full_data_disk(of_database=True)
        if isinstance(error, sqlite3.Error) and _is_full(error):
            return describe_full_data_disk()
        error = error.__cause__ or error.__context__
    return ""


@contextmanager
def unless_full() -> Iterator[None]:
    """For what people can do without: a full disk keeps it from being written, and them from
    nothing."""
    try:
        yield
    except OperationalError as error:
        if not describe_full_disk(error):
            raise
        log.warning("Left out: %s", describe_full_disk(error))


def _is_full(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    if code not in _MAY_MEAN_FULL:
        return code == sqlite3.SQLITE_FULL
    found = disk()
    return found is not None and is_data_disk_full(found.free, found.total)

"""One file with all that people have made here, and back again. See docs/install.md."""

from servers.lifecycle.people.backups.backup import (
    FORMAT,
    BackupError,
    BackupSummary,
    WrongPassphrase,
    read_archive,
    take,
)
from servers.lifecycle.people.backups.restore import (
    MissingItem,
    Restored,
    check,
    list_missing,
    restore,
)

__all__ = [
    "FORMAT",
    "BackupError",
    "MissingItem",
    "Restored",
    "BackupSummary",
    "WrongPassphrase",
    "check",
    "list_missing",
    "read_archive",
    "restore",
    "take",
]

"""One file with all that people have made here, and back again. See docs/install.md."""

from servers.lifecycle.backups.archive import FORMAT, BackupError, read
from servers.lifecycle.backups.lacking import MissingItem, list_missing
from servers.lifecycle.backups.restoring import Restored, check, restore
from servers.lifecycle.backups.sealing import WrongPassphrase
from servers.lifecycle.backups.taking import BackupSummary, take

__all__ = [
    "FORMAT",
    "BackupError",
    "MissingItem",
    "Restored",
    "BackupSummary",
    "WrongPassphrase",
    "check",
    "list_missing",
    "read",
    "restore",
    "take",
]

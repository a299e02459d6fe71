"""One file with all that people have made here, and back again. See docs/install.md."""

from servers.lifecycle.people.backups.archive import FORMAT, BackupError, read
from servers.lifecycle.people.backups.backup import BackupSummary, take
from servers.lifecycle.people.backups.encryption import WrongPassphrase
from servers.lifecycle.people.backups.missing import MissingItem, list_missing
from servers.lifecycle.people.backups.restore import Restored, check, restore

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

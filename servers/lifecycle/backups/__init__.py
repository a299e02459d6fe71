"""One file with all that people have made here, and back again. See docs/install.md."""

from servers.lifecycle.backups.archive import FORMAT, BackupError, read
from servers.lifecycle.backups.lacking import Lack, lacking
from servers.lifecycle.backups.restoring import Restored, check, restore
from servers.lifecycle.backups.sealing import WrongPassphrase
from servers.lifecycle.backups.taking import Taken, take

__all__ = [
    "FORMAT",
    "BackupError",
    "Lack",
    "Restored",
    "Taken",
    "WrongPassphrase",
    "check",
    "lacking",
    "read",
    "restore",
    "take",
]
